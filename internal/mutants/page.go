package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Row is a line of the page: a mutant and what became of it. Mark is that of the
// mutant when it was tried.
type Row struct {
	ID, Disabled, Killer, Took, Mark string
}

const pageHead = `# Mutants

What happens if a guard of the engine is taken away? For each line below that was done, and a test failed.
` + "`make mutants`" + ` does it again for all of them and writes this page; ` + "`go run ./internal/mutants -run REGEX`" + ` does it for some,
` + "`-list`" + ` names them. The tree stays as it is: the compiler is given the broken file in place of the right one.
A line is added by a row in the tables of ` + "`internal/mutants`" + `, whose tests say when a row no longer fits the source.
Times are seconds for compiling and testing, on two cores. The last column stands for what was replaced by what: a line stays
only as long as its mutant is the one that was tried.
`

// Page returns the page for rows, in the order of the table. Rows that are missing
// are left out.
func Page(table []Mutant, rows map[string]Row) string {
	var b strings.Builder
	b.WriteString(pageHead)
	there := 0
	for i := range table {
		if _, ok := rows[table[i].ID]; ok {
			there++
		}
	}
	fmt.Fprintf(&b, "\n%d mutants, all of them killed.\n", there)
	if missing := len(table) - there; missing > 0 {
		fmt.Fprintf(&b, "%d more were not tried yet, or not since they were changed.\n", missing)
	}
	section := func(subject, title, note string) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		if note != "" {
			b.WriteString(note + "\n\n")
		}
		b.WriteString("| mutant | what was disabled | killed by | s | mark |\n|---|---|---|---|---|\n")
		for i := range table {
			if r, ok := rows[table[i].ID]; ok && table[i].Subject() == subject {
				fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s |\n", r.ID, r.Disabled, r.Killer, r.Took, r.Mark)
			}
		}
	}
	for _, rule := range Rules {
		section(rule.Name, rule.Name+": "+rule.Text, notes(rule.Name))
	}
	section("streams", "Streams, and who awaits them", "")
	section("limits", "Limits", "")
	section("lists", "Lists, counts, and formats", "")
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
		if !strings.HasPrefix(lines.Text(), "| `") || len(cells) != 5 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		r := Row{strings.Trim(cells[0], "`"), cells[1], strings.Trim(cells[2], "`"), cells[3], cells[4]}
		rows[r.ID] = r
		order = append(order, r.ID)
	}
	return rows, order, lines.Err()
}

// WritePage puts results into the page, in place of older ones, and keeps the lines of
// mutants that were not tried if they are the ones that were tried then. What was tried
// and not killed has no line. An error says how many mutants of the table have none: the
// page is written all the same, and says so.
func WritePage(name string, table []Mutant, results []Result) error {
	rows, _, err := ReadPage(name)
	if err != nil {
		return err
	}
	fresh := map[string]bool{}
	for _, r := range results {
		delete(rows, r.ID)
		if r.Verdict == Killed {
			rows[r.ID], fresh[r.ID] = Row{ID: r.ID, Killer: r.Killer, Took: fmt.Sprintf("%.1f", r.Took.Seconds())}, true
		}
	}
	var missing []string
	for i := range table {
		m := &table[i]
		row, ok := rows[m.ID]
		if !ok || !fresh[m.ID] && row.Mark != m.Mark() {
			delete(rows, m.ID)
			missing = append(missing, m.ID)
			continue
		}
		row.Disabled, row.Mark = m.Disabled, m.Mark()
		rows[m.ID] = row
	}
	if err := os.WriteFile(name, []byte(Page(table, rows)), 0o644); err != nil { //nolint:gosec // a page for everybody
		return fmt.Errorf("write rows of mutants: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("write %s: %d mutants have no line yet, %s first: try them with -run and -write", name, len(missing), missing[0])
	}
	return nil
}
