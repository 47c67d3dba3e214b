package model

import (
	"fmt"
	"go/token"

	"github.com/flowgen/flowgen/internal/diagnostic"
)

// use is a stored name and the position that defines it.
type use struct {
	stored string
	what   string
	pos    token.Pos
}

// uses returns the stored names of a package. A step and a workflow must not have the same stored
// name; an error may share its name with either.
func (p *Package) uses() (executed, failures []use) {
	for _, w := range p.Workflows {
		executed = append(executed, use{w.Stored, "workflow " + w.Impl, w.pos})
	}
	for _, s := range p.Steps {
		executed = append(executed, use{s.Stored, "step " + s.Impl, s.pos})
	}
	for _, f := range p.Failures {
		failures = append(failures, use{f.Stored, "error " + f.Stored, f.pos})
	}
	return executed, failures
}

// duplicateNames reports stored names that occur twice in the package. It omits duplicates that
// sameGoName reports.
func (b *builder) duplicateNames() {
	executed, failures := b.model.uses()
	reported := make(map[token.Pos]bool)
	for _, f := range b.functions() {
		reported[f.pos] = b.askedTwice(f.pos)
	}
	for _, us := range [][]use{executed, failures} {
		first := make(map[string]use)
		for _, u := range us {
			other, twice := first[u.stored]
			switch {
			case !twice:
				first[u.stored] = u
			case !reported[u.pos] && !reported[other.pos]:
				later, earlier := u, other
				if b.comparePos(later.pos, earlier.pos) < 0 {
					later, earlier = earlier, later
				}
				b.report(later.pos, fmt.Sprintf("%s has the stored name %q of %s at %s", later.what, u.stored, earlier.what, b.line(earlier.pos)),
					"give one of them another with name=full.name")
			}
		}
	}
}

// Registry contains the stored names of all packages that one invocation of the generator
// processes.
type Registry struct {
	executed, failures map[string]owner
}

type owner struct{ path, what string }

// Add adds the stored names of p and reports names that another package uses. position converts
// positions in p.
func (r *Registry) Add(p *Package, position func(token.Pos) token.Position) []diagnostic.Diagnostic {
	if r.executed == nil {
		r.executed, r.failures = make(map[string]owner), make(map[string]owner)
	}
	executed, failures := p.uses()
	ds := add(r.executed, executed, p.Path, position)
	return append(ds, add(r.failures, failures, p.Path, position)...)
}

func add(owners map[string]owner, uses []use, path string, position func(token.Pos) token.Position) []diagnostic.Diagnostic {
	var ds []diagnostic.Diagnostic
	for _, u := range uses {
		other, taken := owners[u.stored]
		switch {
		case !taken:
			owners[u.stored] = owner{path, u.what}
		case other.path != path:
			ds = append(ds, diagnostic.New(position(u.pos), fmt.Sprintf("%s has the stored name %q of %s in package %s", u.what, u.stored, other.what, other.path),
				"give the package another prefix with //flow:package name=P, or one of them another name with name=full.name"))
		}
	}
	return ds
}
