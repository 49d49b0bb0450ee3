"""When waiting jobs start by the release's wait model, and whether it or playing forward is believed."""
