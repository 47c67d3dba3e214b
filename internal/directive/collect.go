package directive

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxBatch is the maximum number of starts in a batch. It is limited because the log of one run
// contains all their inputs.
const maxBatch = 10_000

// setDebounce parses the value of debounce=, which has the form EXPR,QUIET or EXPR,QUIET,MOST.
func setDebounce(d *Directive, v Text) *Problem {
	parts := topLevel(v)
	times := parts[len(parts)-1:]
	if n := len(parts); n > 2 && isDuration(parts[n-2]) {
		times = parts[n-2:]
	} else if n == 1 {
		return &Problem{v.Pos, "debounce=" + v.Value + " does not say for how long no start must come", "write it after the key, as in debounce=doc.ID,10s"}
	}
	d.Collect = Text{Value: v.Value[:times[0].Pos-v.Pos-1], Pos: v.Pos}
	var p *Problem
	if d.Quiet, p = duration("debounce", times[0]); p != nil || len(times) == 1 {
		return p
	}
	if d.Most, p = duration("debounce", times[1]); p != nil {
		return p
	}
	if d.Most <= d.Quiet {
		return &Problem{times[1].Pos, fmt.Sprintf("%s is %s the quiet time of %s", times[1].Value, belowOr(d.Most < d.Quiet), times[0].Value),
			"write how long the first start waits at most, as in debounce=doc.ID,10s,2m, or leave it out"}
	}
	return nil
}

func belowOr(below bool) string {
	if below {
		return "below"
	}
	return "not above"
}

func isDuration(v Text) bool {
	_, err := time.ParseDuration(v.Value)
	return err == nil
}

// setBatch parses the value of batch=, which has the form N,MOST or N,MOST,EXPR.
func setBatch(d *Directive, v Text) *Problem {
	parts := topLevel(v)
	n, err := strconv.ParseUint(parts[0].Value, 10, 31)
	if err != nil || n < 2 || n > maxBatch {
		return &Problem{v.Pos, "batch=" + parts[0].Value + " is not a number of starts", fmt.Sprintf("write a whole number from 2 to %d, as in batch=100,5s", maxBatch)}
	}
	if len(parts) == 1 {
		return &Problem{v.Pos, "batch=" + v.Value + " does not say how long the first start waits at most", "write it after the number, as in batch=100,5s"}
	}
	d.Full = int(n)
	var p *Problem
	if d.Most, p = duration("batch", parts[1]); p != nil || len(parts) == 2 {
		return p
	}
	from := int(parts[2].Pos - v.Pos)
	if d.Collect = (Text{Value: v.Value[from:], Pos: parts[2].Pos}); strings.TrimSpace(d.Collect.Value) == "" {
		return &Problem{parts[2].Pos, "batch has no key after the last comma", "write one, as in batch=100,5s,email.Tenant, or remove the comma"}
	}
	return nil
}
