"""Compiles the loop, so that no replay has to: `python -m simulator.compiled`."""

from simulator.compiled import machine_code

if __name__ == "__main__":
    if machine_code.loop() is None:
        raise SystemExit(1)
    print(machine_code.kept_file())
