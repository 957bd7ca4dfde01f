"""The table."""

UNITS = ((1.0, "s", 1), (1e-3, "ms", 1e3), (0.0, "µs", 1e6))


def quantity(value, unit):
    """A value with a unit that suits its size, three digits wide."""
    if unit == "s":
        _, unit, factor = next(row for row in UNITS if value >= row[0])
        value *= factor
    elif unit == "B":
        value, unit = value / (1 << 20), "MiB"
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}"


def print_figures(figures, result):
    rows = [("figure", "n", "median", "p95", "yardstick", "its median", "ratio", "goal")]
    for figure in figures:
        yardstick = figure.yardstick
        rows.append((
            figure.name,
            str(len(figure.samples)),
            quantity(figure.median, figure.unit),
            quantity(figure.p95, figure.unit),
            yardstick.name if yardstick else "–",
            quantity(yardstick.median, yardstick.unit) if yardstick else "–",
            f"{figure.ratio:.2f}×" if figure.ratio is not None else "–",
            f"≤ {figure.goal:g}×" if figure.goal is not None else "–",
        ))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = (0, 4)
    print()
    for index, row in enumerate(rows):
        cells = (text.ljust(width) if column in left else text.rjust(width)
                 for column, (text, width) in enumerate(zip(row, widths)))
        print("  ".join(cells).rstrip())
        if index == 0:
            print("  ".join("─" * width for width in widths))
    notes = [(figure.name, figure.note) for figure in figures if figure.note]
    if notes:
        print()
        for name, note in notes:
            print(f"{name}: {note}")
    for name, failure in result["failures"].items():
        print(f"\n{name} could not be taken: {failure.strip().splitlines()[-1]}")
    machine = result["machine"]
    load = lambda values: " ".join(f"{value:.2f}" for value in values)
    print(f"\nload average before {load(result['load_before'])}, after {load(result['load_after'])}; "
          f"{machine['processors']} × {machine['processor']}, Linux {machine['kernel']}, {result['file_system']}")
