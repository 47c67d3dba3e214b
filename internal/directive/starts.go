package directive

import (
	"errors"
	"fmt"
	"go/token"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/cron"
	"github.com/flowgen/flowgen/internal/spelling"
)

// policies lists the policies of singleton=. They determine the effect of a start while a run is
// active.
var policies = []string{"skip", "replace", "latest", "queue"}

// setSingleton parses the value of singleton=, which has the form EXPR or EXPR,POLICY.
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
	if near := spelling.Nearest(policy.Value, policies); near != "" {
		p.Fix = "did you mean " + near + "?"
	}
	return p
}

// setFair parses the value of fair=, which has the form EXPR or EXPR:SHARE.
func setFair(d *Directive, v Text) *Problem {
	parts := splitAt(v, ':')
	d.Fair = parts[0]
	switch {
	case len(parts) > 2:
		return &Problem{parts[2].Pos - 1, "fair=" + v.Value + " has more than a key and a share", "write fair=EXPR or fair=EXPR:SHARE, with parentheses around what has a colon of its own"}
	case len(parts) == 1:
		return nil
	}
	if d.Share = parts[1]; d.Share.Value == "" {
		return &Problem{parts[1].Pos - token.Pos(1), "fair=" + v.Value + " has no share after the colon", "write one, as in fair=order.Tenant:3, or no colon for a share of 1"}
	}
	return nil
}

// setSchedule validates the value of schedule= with package cron. The runtime computes ticks with
// the same package.
func setSchedule(d *Directive, v Text) *Problem {
	ticks, err := cron.Parse(v.Value)
	if bad := (*cron.Error)(nil); errors.As(err, &bad) {
		return &Problem{v.Pos, fmt.Sprintf("%q is no schedule", v.Value), bad.Problem}
	}
	d.Schedule = ticks.String()
	return nil
}
