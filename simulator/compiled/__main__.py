"""Compiles the loop, so that no replay has to: `python -m simulator.compiled`."""

from simulator.compiled import machine_code

if __name__ == "__main__":
    if machine_code.loop() is None:
        raise SystemExit(1)
    if not machine_code.is_kept():
        raise SystemExit(f"It cannot be kept in {machine_code.cache_folder()}: set LUCID_CACHE_DIR.")
    print(machine_code.kept_file())
