"""Table of figures: names, units, definitions and functions of what is measured."""
