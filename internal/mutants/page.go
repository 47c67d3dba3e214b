package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Row is a line of the page: a mutant and what became of it.
type Row struct {
	ID, Disabled, Killer, Took string
}

const pageHead = `# Mutants

What happens if a guard of the engine is taken away? For each line below that was done, and a test failed.
` + "`make mutants`" + ` does it again for all of them and writes this page; ` + "`go run ./internal/mutants -run REGEX`" + ` does it for some,
` + "`-list`" + ` names them. The tree stays as it is: the compiler is given the broken file in place of the right one.
A line is added by a row in the tables of ` + "`internal/mutants`" + `, whose tests say when a row no longer fits the source.
Times are seconds for compiling and testing, on two cores.
`

// Page returns the page for rows, in the order of the table. Rows that are missing
// are left out.
func Page(table []Mutant, rows map[string]Row) string {
	var b strings.Builder
	b.WriteString(pageHead)
	fmt.Fprintf(&b, "\n%d mutants, all of them killed.\n", len(table))
	section := func(subject, title, note string) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		if note != "" {
			b.WriteString(note + "\n\n")
		}
		b.WriteString("| mutant | what was disabled | killed by | s |\n|---|---|---|---|\n")
		for i := range table {
			if r, ok := rows[table[i].ID]; ok && table[i].Subject() == subject {
				fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", r.ID, r.Disabled, r.Killer, r.Took)
			}
		}
	}
	for _, rule := range Rules {
		section(rule.Name, rule.Name+": "+rule.Text, notes(rule.Name))
	}
	section("engine", "Decisions of the engine", "")
	return b.String()
}

// notes says why a rule is not broken in every store.
func notes(rule string) string {
	var all []string
	for _, key := range sortedKeys(Elsewhere) {
		name, place, one := strings.Cut(key, "/")
		switch {
		case name != rule:
		case one:
			all = append(all, "Not in `"+place+"`: "+Elsewhere[key])
		default:
			all = append(all, "Not in the stores: "+Elsewhere[key])
		}
	}
	return strings.Join(all, " ")
}

// ReadPage returns the rows of a page by id; none if there is no page.
func ReadPage(name string) (map[string]Row, []string, error) {
	rows := map[string]Row{}
	var order []string
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return rows, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read rows of mutants: %w", err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		cells := strings.Split(strings.Trim(lines.Text(), "|"), "|")
		if !strings.HasPrefix(lines.Text(), "| `") || len(cells) != 4 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		r := Row{strings.Trim(cells[0], "`"), cells[1], strings.Trim(cells[2], "`"), cells[3]}
		rows[r.ID] = r
		order = append(order, r.ID)
	}
	return rows, order, lines.Err()
}

// WritePage puts results into the page, in place of older ones; what is no longer
// in the table is dropped. Every mutant of the table must have been killed once.
func WritePage(name string, table []Mutant, results []Result) error {
	rows, _, err := ReadPage(name)
	if err != nil {
		return err
	}
	fresh := map[string]Result{}
	for _, r := range results {
		fresh[r.ID] = r
	}
	for i := range table {
		m := &table[i]
		row := rows[m.ID]
		if r, ok := fresh[m.ID]; ok && r.Verdict == Killed {
			row = Row{ID: m.ID, Killer: r.Killer, Took: fmt.Sprintf("%.1f", r.Took.Seconds())}
		}
		if row.ID == "" {
			return fmt.Errorf("write %s: mutant %s was not killed yet: run the program without -run", name, m.ID)
		}
		row.Disabled = m.Disabled
		rows[m.ID] = row
	}
	if err := os.WriteFile(name, []byte(Page(table, rows)), 0o644); err != nil { //nolint:gosec // a page for everybody
		return fmt.Errorf("write rows of mutants: %w", err)
	}
	return nil
}
