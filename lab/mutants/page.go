package main

import (
	"fmt"
	"os"
	"strings"
)

const pageHead = `# Mutants

What happens if a guard of the engine is taken away: each line is a guard, and the test that failed without it. The source tree stays
as it is: the compiler reads the broken file in place of the right one. Times are seconds for compiling and testing.
`

// Page returns the page with the results of the tested mutants. The mutants are in the order of the
// table.
func Page(table []Mutant, results []Result) string {
	tried, killed := map[string]Result{}, 0
	for _, r := range results {
		tried[r.ID] = r
		if r.Verdict == Killed {
			killed++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d of %d mutants were tried, %d of them killed.\n", pageHead, len(results), len(table), killed)
	section := func(subject, title, note string) {
		rows := ""
		for i := range table {
			if r, ok := tried[table[i].ID]; ok && table[i].Subject() == subject {
				rows += fmt.Sprintf("| `%s` | %s | %s | `%s` | %.1f |\n", r.ID, table[i].Disabled, r.Verdict, r.Killer, r.Took.Seconds())
			}
		}
		if rows == "" {
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		if note != "" {
			b.WriteString(note + "\n\n")
		}
		b.WriteString("| mutant | what was disabled | verdict | killed by | s |\n|---|---|---|---|---|\n" + rows)
	}
	for _, rule := range Rules {
		section(rule.Name, rule.Name+": "+rule.Text, Elsewhere[rule.Name])
	}
	section("streams", "Streams, and who awaits them", "")
	section("limits", "Limits", "")
	section("lists", "Lists, counts, and formats", "")
	section("engine", "Decisions of the engine", "")
	return b.String()
}

// WritePage writes the page with the results to a file.
func WritePage(name string, table []Mutant, results []Result) error {
	if err := os.WriteFile(name, []byte(Page(table, results)), 0o644); err != nil { //nolint:gosec // a page that anyone may read
		return fmt.Errorf("write the page of mutants: %w", err)
	}
	return nil
}
