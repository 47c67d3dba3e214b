package generator

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/model"
)

// unmentioned adds a note if go generate runs flowgen for some packages but skips others with
// directives. A package is skipped if neither the package nor a parent directory has a go:generate
// line for it. The note names the first of the skipped packages as an example.
func (r *Report) unmentioned(packages []*load.Package, models map[*load.Package]*model.Package) {
	var single, below []string // directories that go:generate lines cover, without and with their subdirectories
	for _, p := range packages {
		for _, words := range generateLines(p) {
			if slices.ContainsFunc(words, func(w string) bool { return strings.HasSuffix(w, "...") }) {
				below = append(below, p.Dir)
			} else {
				single = append(single, p.Dir)
			}
		}
	}
	if len(single)+len(below) == 0 {
		return // No package has a go:generate line, so flowgen is run by other means.
	}
	var passed []*load.Package
	for _, p := range packages {
		m := models[p]
		covered := slices.Contains(single, p.Dir) || slices.ContainsFunc(below, func(dir string) bool {
			return p.Dir == dir || strings.HasPrefix(p.Dir, dir+string(filepath.Separator))
		})
		if m != nil && !m.Empty() && p.Foreign == "" && !covered {
			passed = append(passed, p)
		}
	}
	if len(passed) == 0 {
		return
	}
	first, others := passed[0], ""
	if n := len(passed) - 1; n > 0 {
		others = fmt.Sprintf(" (and for %d more)", n)
	}
	r.Notes = append(r.Notes, diagnostic.New(first.Position(models[first].First), "package "+first.Name+" has directives, and no go:generate line runs flowgen for it"+others+", so go generate passes it over",
		"add //go:generate go tool flowgen to one of its files, or one line with ./... at the root of the module"))
}

// generateLines returns the words of each go:generate line of a package that runs flowgen.
func generateLines(p *load.Package) [][]string {
	var lines [][]string
	for _, f := range slices.Concat(p.Files, p.Others) {
		for _, group := range f.AST.Comments {
			for _, c := range group.List {
				command, ok := strings.CutPrefix(c.Text, "//go:generate ")
				if ok && strings.Contains(command, "flowgen") && p.Position(c.Pos()).Column == 1 {
					lines = append(lines, strings.Fields(command))
				}
			}
		}
	}
	return lines
}
