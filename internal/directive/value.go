package directive

import (
	"fmt"
	"go/token"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxRetries is the maximum of retries=. It ensures that retries+1 fits into an int, and rejects
// obvious mistakes.
const maxRetries = 1_000_000

func setAs(d *Directive, v Text) *Problem { return exported(&d.As, "as", v) }

func setRegister(d *Directive, v Text) *Problem { return exported(&d.Register, "register", v) }

func setSteps(d *Directive, v Text) *Problem { return exported(&d.Steps, "steps", v) }

// setClient stores the directory of client=. The generator validates the directory later.
func setClient(d *Directive, v Text) *Problem {
	if path.IsAbs(v.Value) || strings.Contains(v.Value, `\\`) || strings.Contains(v.Value, ":") {
		return &Problem{v.Pos, fmt.Sprintf("client=%s is not relative to the directory of the package", v.Value), "write it with slashes, as in client=ordersclient or client=../ordersclient"}
	}
	d.Client = v
	return nil
}

func exported(into *string, option string, v Text) *Problem {
	if token.IsIdentifier(v.Value) && token.IsExported(v.Value) {
		*into = v.Value
		return nil
	}
	return &Problem{v.Pos, fmt.Sprintf("%s=%s is not an exported Go identifier", option, v.Value),
		"write a Go name that starts with an upper-case letter"}
}

func setName(d *Directive, v Text) *Problem {
	if !validStoredName(v.Value) {
		return &Problem{v.Pos, fmt.Sprintf("name=%s is not a stored name", v.Value),
			"write letters, digits, _ and -, in parts joined by single dots"}
	}
	if d.Kind != Package && !strings.Contains(v.Value, ".") {
		return &Problem{v.Pos, fmt.Sprintf("name=%s is not a full stored name", v.Value),
			"write the package part too, as in name=orders." + v.Value}
	}
	d.Name = v.Value
	return nil
}

// validStoredName reports whether s consists of parts joined by dots, each of letters, digits, "_"
// and "-". Therefore a name contains no separators of store keys ("/" and "#").
func validStoredName(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || !utf8.ValidString(part) {
			return false
		}
		for _, r := range part {
			if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' {
				return false
			}
		}
	}
	return true
}

func setQueue(d *Directive, v Text) *Problem {
	if validStoredName(v.Value) {
		d.Queue = v.Value
		return nil
	}
	return &Problem{v.Pos, fmt.Sprintf("queue=%s is not a queue name", v.Value), "write letters, digits, _, - and single dots"}
}

func setKey(d *Directive, v Text) *Problem {
	d.Key = v
	return nil
}

func setPriority(d *Directive, v Text) *Problem {
	d.Priority = v
	return nil
}

func setNonIdempotent(d *Directive, _ Text) *Problem {
	d.NonIdempotent = true
	return nil
}

func setRetries(d *Directive, v Text) *Problem {
	n, err := strconv.ParseUint(v.Value, 10, 31)
	if err != nil || n > maxRetries {
		return &Problem{v.Pos, "retries=" + v.Value + " is not a number of retries",
			fmt.Sprintf("write a whole number from 0 to %d", maxRetries)}
	}
	d.Retries = int(n)
	return nil
}

func setJitter(d *Directive, v Text) *Problem {
	f, err := strconv.ParseFloat(v.Value, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return &Problem{v.Pos, "jitter=" + v.Value + " is not a share of the delay", "write a number from 0 to 1, as in jitter=0.2"}
	}
	d.Jitter = f
	return nil
}

func setTotal(d *Directive, v Text) (p *Problem) {
	d.Total, p = duration("total", v)
	return p
}

func setTimeout(d *Directive, v Text) (p *Problem) {
	d.Timeout, p = duration("timeout", v)
	return p
}

func setRetention(d *Directive, v Text) (p *Problem) {
	d.Retention, p = duration("retention", v)
	return p
}

func setPin(d *Directive, _ Text) *Problem {
	d.Pin = true
	return nil
}

func setStartWithin(d *Directive, v Text) (p *Problem) {
	d.StartWithin, p = duration("startwithin", v)
	return p
}

// maxChildren is the maximum of children=. It rejects mistyped numbers that would practically be
// unlimited.
const maxChildren = 1_000_000

func setChildren(d *Directive, v Text) *Problem {
	n, err := strconv.ParseUint(v.Value, 10, 31)
	if err != nil || n == 0 || n > maxChildren {
		return &Problem{v.Pos, "children=" + v.Value + " is not a number of children",
			fmt.Sprintf("write a whole number from 1 to %d, or leave the option out for the default", maxChildren)}
	}
	d.Children = int(n)
	return nil
}

// duration parses a positive duration. Zero is rejected, because a policy uses zero for the default
// value.
func duration(option string, v Text) (time.Duration, *Problem) {
	what := fmt.Sprintf("%s=%s is not a duration", option, v.Value)
	if n, found := strings.CutSuffix(v.Value, "d"); found {
		if days, err := strconv.ParseUint(n, 10, 16); err == nil {
			return 0, &Problem{v.Pos, what, fmt.Sprintf("write days in hours: %s=%dh", option, 24*days)}
		}
	}
	t, err := time.ParseDuration(v.Value)
	switch {
	case err != nil:
		return 0, &Problem{v.Pos, what, "write a number and a unit: ns, us, ms, s, m or h, as in " + option + "=90s"}
	case t <= 0:
		return 0, &Problem{v.Pos, fmt.Sprintf("%s=%s is not positive", option, v.Value),
			"write a duration above zero, or leave the option out for the default"}
	}
	return t, nil
}

// Wire maps a parameter to its stored name.
type Wire struct {
	Param  string
	Stored string
	Pos    token.Pos
}

func setWire(d *Directive, v Text) *Problem {
	for _, arg := range arguments(v) {
		param, stored, ok := strings.Cut(arg.Value, ":")
		if !ok || !token.IsIdentifier(param) || !token.IsIdentifier(stored) {
			return &Problem{arg.Pos, fmt.Sprintf("wire=%s does not say under which name a parameter is stored", arg.Value),
				"write wire=parameter:stored or several, joined by commas"}
		}
		for _, other := range d.Wire {
			if other.Param == param {
				return &Problem{arg.Pos, "wire names parameter " + param + " twice", "remove one of them"}
			}
		}
		d.Wire = append(d.Wire, Wire{Param: param, Stored: stored, Pos: arg.Pos})
	}
	return nil
}
