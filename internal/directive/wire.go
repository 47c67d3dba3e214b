package directive

import (
	"fmt"
	"go/token"
	"strings"
)

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
