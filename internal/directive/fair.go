package directive

import "go/token"

// setFair parses EXPR or EXPR:SHARE.
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
