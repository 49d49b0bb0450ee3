"""Compiles the loop, so that no replay has to: `python -m simulator.compiled`."""

from simulator.compiled import machine_code

if __name__ == "__main__":
    machine_code.loop()
    print(machine_code.kept_file())
