"""The table."""

from samples import quantity


def print_figures(figures, result):
    rows = [("figure", "n", "p50", "p99", "yardstick", "its p50", "its p99", "ratio", "goal", "")]
    for figure in figures:
        yardstick, goal = figure.yardstick, figure.goal
        show = lambda value, unit=figure.unit: quantity(value, unit)
        rows.append((
            figure.name,
            str(len(figure.samples)),
            show(figure.median),
            show(figure.p99),
            yardstick.name if yardstick else "–",
            quantity(yardstick.median, yardstick.unit) if yardstick else "–",
            quantity(yardstick.p99, yardstick.unit) if yardstick else "–",
            f"{figure.ratio:.{2 if figure.ratio >= 0.1 else 4}f}×" if figure.ratio is not None else "–",
            goal.text(show) if goal else "–",
            goal.verdict(figure, show) if goal else "",
        ))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = (0, 4, 8, 9)
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
