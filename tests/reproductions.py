"""A reproduction of three items, its command line, and its sections."""

from otpe.lab.report.content import from_json

ITEM, BPTT, OTPE = "offline-t-randman", "t-randman-offline-bptt", "t-randman-offline-otpe"
RANDMAN = (ITEM, "cosines-t-randman", "online-t-randman")


def line(config, *more):
    return ["reproduce", *config.items, "--quick", "--out", str(config.out), "--root", str(config.root), *more]


def read_section(config, item):
    return from_json((config.out / item / "section.json").read_text())
