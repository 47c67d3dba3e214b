package directive

import "go/token"

// Reference is an error in fatal=. It is a variable (ErrX, pkg.ErrX) or a type (TypeY, *TypeY,
// *pkg.TypeY).
type Reference struct {
	Pointer   bool
	Qualifier string // name of an import of the file; may be empty
	Name      string
	Pos       token.Pos
}

// String returns the reference in its source form.
func (r Reference) String() string {
	s := r.Name
	if r.Qualifier != "" {
		s = r.Qualifier + "." + s
	}
	if r.Pointer {
		s = "*" + s
	}
	return s
}

func setFatal(d *Directive, v Text) *Problem {
	seen := make(map[string]bool)
	for _, arg := range arguments(v) {
		ref, ok := parseReference(arg)
		if !ok {
			return &Problem{arg.Pos, "fatal=" + arg.Value + " is not the name of an error", "write fatal=ErrX, fatal=*TypeY or several, joined by commas"}
		}
		if seen[ref.String()] {
			return &Problem{arg.Pos, "fatal names " + ref.String() + " twice", "remove one of them"}
		}
		seen[ref.String()] = true
		d.Fatal = append(d.Fatal, ref)
	}
	return nil
}

func parseReference(v Text) (Reference, bool) {
	ref := Reference{Pos: v.Pos}
	rest := v.Value
	if len(rest) > 0 && rest[0] == '*' {
		ref.Pointer, rest = true, rest[1:]
	}
	for i := range len(rest) {
		if rest[i] == '.' {
			ref.Qualifier, rest = rest[:i], rest[i+1:]
			if !token.IsIdentifier(ref.Qualifier) {
				return ref, false
			}
			break
		}
	}
	ref.Name = rest
	return ref, token.IsIdentifier(rest) && rest != "_"
}

// addErrors adds error variables of other packages, as in //flow:error sql.ErrNoRows.
func (d *Directive) addErrors(v Text) Problem {
	for _, arg := range arguments(v) {
		ref, ok := parseReference(arg)
		if !ok || ref.Qualifier == "" {
			return Problem{arg.Pos, "//flow:error " + arg.Value + " is not the name of an error of another package", "write //flow:error pkg.ErrX or several, joined by commas"}
		}
		d.Errors = append(d.Errors, ref)
	}
	return Problem{}
}
