package directive

import (
	"fmt"
	"slices"
	"strings"
)

// policies lists the values of singleton= that determine the treatment of a start while a run is
// active.
var policies = []string{"skip", "replace", "latest", "queue"}

// setSingleton parses EXPR or EXPR,POLICY.
func setSingleton(d *Directive, v Text) *Problem {
	parts := topLevel(v)
	d.Singleton, d.Active = v, "skip"
	if len(parts) == 1 {
		return nil
	}
	policy := parts[len(parts)-1]
	d.Singleton = Text{Value: v.Value[:strings.LastIndexByte(v.Value, ',')], Pos: v.Pos}
	if slices.Contains(policies, policy.Value) {
		d.Active = policy.Value
		return nil
	}
	p := &Problem{policy.Pos, fmt.Sprintf("singleton has no policy %q", policy.Value), "use one of " + strings.Join(policies, ", ")}
	if near := Nearest(policy.Value, policies); near != "" {
		p.Fix = "did you mean " + near + "?"
	}
	return p
}
