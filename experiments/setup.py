"""Finds the packages to build: this folder is one itself, which no table of pyproject.toml can say."""

from setuptools import find_packages, setup

if __name__ == "__main__":
    setup(packages=["experiments", *(f"experiments.{name}" for name in find_packages())])
