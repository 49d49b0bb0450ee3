"""Devices that jobs can be measured on."""
