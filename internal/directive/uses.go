package directive

import (
	"fmt"
	"go/token"
	"math"
	"strconv"
	"strings"
)

// Use is a limit in uses=. It consists of a variable (GPU, pkg.GPU), the key of the partition if
// the limit is keyed, and a weight.
type Use struct {
	Limit  Reference
	Key    Text // expression of the key; empty for a limit without keys
	Weight int
}

func setUses(d *Directive, v Text) *Problem {
	seen := make(map[string]int)
	for _, arg := range topLevel(v) {
		u, p := parseUse(arg)
		if p != nil {
			return p
		}
		id := u.Limit.String() + "(" + u.Key.Value + ")"
		if before := seen[id]; before > 0 {
			name, _, _ := strings.Cut(arg.Value, ":")
			return &Problem{arg.Pos, "uses names " + name + " twice", fmt.Sprintf("write %s:%d", name, before+u.Weight)}
		}
		seen[id] = u.Weight
		d.Uses = append(d.Uses, u)
	}
	return nil
}

// parseUse parses an element of uses=, which has the form NAME, NAME:WEIGHT, NAME(KEY) or
// NAME(KEY):WEIGHT.
func parseUse(arg Text) (Use, *Problem) {
	u := Use{Weight: 1}
	text := arg.Value
	wrong := &Problem{arg.Pos, "uses=" + arg.Value + " is not a limit", "write uses=GPU, uses=GPU:2, uses=PerHost(url.Host) or several, joined by commas"}
	if colon := strings.LastIndexByte(text, ':'); colon > strings.LastIndexByte(text, ')') {
		weight, err := strconv.Atoi(text[colon+1:])
		if err != nil || weight < 1 || weight > math.MaxInt32 {
			return u, &Problem{arg.Pos + token.Pos(colon+1), "the weight " + text[colon+1:] + " is not a number above zero", "write uses=" + text[:colon] + ":2, or no weight for 1"}
		}
		u.Weight, text = weight, text[:colon]
	}
	if open := strings.IndexByte(text, '('); open >= 0 {
		if !strings.HasSuffix(text, ")") || open+1 == len(text)-1 {
			return u, wrong
		}
		u.Key = Text{text[open+1 : len(text)-1], arg.Pos + token.Pos(open+1)}
		text = text[:open]
	}
	ref, ok := parseReference(Text{text, arg.Pos})
	if !ok || ref.Pointer {
		return u, wrong
	}
	u.Limit = ref
	return u, nil
}

// topLevel splits t at the commas outside of parentheses and quotes.
func topLevel(t Text) []Text { return splitAt(t, ',') }

// splitAt splits t at the bytes equal to at outside of parentheses and quotes.
func splitAt(t Text, at byte) []Text {
	var args []Text
	start, depth := 0, 0
	for i := 0; i <= len(t.Value); i++ {
		switch {
		case i == len(t.Value) || t.Value[i] == at && depth == 0:
			args = append(args, Text{t.Value[start:i], t.Pos + token.Pos(start)})
			start = i + 1
		case strings.IndexByte("([{", t.Value[i]) >= 0:
			depth++
		case strings.IndexByte(")]}", t.Value[i]) >= 0:
			depth--
		case strings.IndexByte("\"`'", t.Value[i]) >= 0:
			if end := quoteEnd(t.Value, i); end > 0 {
				i = end
			}
		}
	}
	return args
}
