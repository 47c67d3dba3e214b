package directive

import (
	"fmt"
	"go/token"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/internal/spelling"
)

// Backoff specifies how the delay between retries grows. The zero value selects the default of the
// runtime.
type Backoff struct {
	Initial   time.Duration
	Increment time.Duration // added to the delay after each attempt
	Max       time.Duration // upper bound of the delay; 0 means no bound
	Factor    float64       // the delay is multiplied by it after each attempt
}

// defaultFactor is the factor of exponential backoff if the directive contains none.
const defaultFactor = 2

const backoffShapes = "write constant(d), linear(d,max) or exponential(first,max[,factor])"

func setBackoff(d *Directive, v Text) (p *Problem) {
	d.Backoff, p = backoff("backoff=", v)
	return p
}

// maxReruns is the maximum of rerun=. It rejects mistyped numbers that would practically be
// unlimited.
const maxReruns = 100

// setRerun parses the value of rerun=, which has the form N or N,SHAPE.
func setRerun(d *Directive, v Text) *Problem {
	number, shape, shaped := strings.Cut(v.Value, ",")
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || n == 0 || n > maxReruns {
		return &Problem{v.Pos, "rerun=" + v.Value + " does not begin with a number of reruns", fmt.Sprintf("write a whole number from 1 to %d, as in rerun=3", maxReruns)}
	}
	d.Rerun, d.RerunBackoff = int(n), Backoff{Initial: time.Minute, Max: time.Hour, Factor: defaultFactor}
	if !shaped {
		return nil
	}
	trimmed := strings.TrimLeft(shape, " \t")
	var p *Problem
	d.RerunBackoff, p = backoff("rerun="+number+",", Text{trimmed, v.Pos + token.Pos(len(v.Value)-len(trimmed))})
	return p
}

// backoff parses a shape and its delays. The texts of problems begin with front.
func backoff(front string, v Text) (b Backoff, p *Problem) {
	shape, list, ok := strings.Cut(v.Value, "(")
	list, closed := strings.CutSuffix(list, ")")
	if !ok || !closed {
		return b, &Problem{v.Pos, front + v.Value + " has no list of delays", backoffShapes}
	}
	args := arguments(Text{list, v.Pos + token.Pos(len(shape)+1)})
	switch shape {
	case "constant":
		p = b.constant(v, args)
	case "linear":
		p = b.linear(v, args)
	case "exponential":
		p = b.exponential(v, args)
	default:
		p = &Problem{v.Pos, shape + " is not a shape of backoff", backoffShapes}
		if near := spelling.Nearest(shape, []string{"constant", "linear", "exponential"}); near != "" {
			p.Fix = "did you mean " + near + "?"
		}
	}
	return b, p
}

// arguments splits a comma-separated list. Each element keeps its position in the file.
func arguments(t Text) []Text {
	var args []Text
	pos := t.Pos
	for part := range strings.SplitSeq(t.Value, ",") {
		trimmed := strings.TrimLeft(part, " \t")
		args = append(args, Text{strings.TrimRight(trimmed, " \t"), pos + token.Pos(len(part)-len(trimmed))})
		pos += token.Pos(len(part) + 1)
	}
	return args
}

func (b *Backoff) constant(v Text, args []Text) (p *Problem) {
	if len(args) != 1 {
		return wrongCount(v, "constant takes one delay", "constant(1s)")
	}
	b.Factor = 1
	b.Initial, p = delay(args[0])
	return p
}

func (b *Backoff) linear(v Text, args []Text) *Problem {
	if len(args) != 2 {
		return wrongCount(v, "linear takes a delay and a maximum", "linear(1s,1m)")
	}
	b.Factor = 1
	p := b.limits(args)
	b.Increment = b.Initial
	return p
}

func (b *Backoff) exponential(v Text, args []Text) *Problem {
	if len(args) != 2 && len(args) != 3 {
		return wrongCount(v, "exponential takes a first delay, a maximum and, if wanted, a factor", "exponential(200ms,30s)")
	}
	b.Factor = defaultFactor
	if len(args) == 3 {
		f, err := strconv.ParseFloat(args[2].Value, 64)
		if err != nil || !(f > 1 && f <= 1000) {
			return &Problem{args[2].Pos, "the factor " + args[2].Value + " does not make delays grow",
				"write a number above 1 and up to 1000, or use constant(d)"}
		}
		b.Factor = f
	}
	return b.limits(args)
}

// limits parses the first delay and the maximum delay into b.
func (b *Backoff) limits(args []Text) (p *Problem) {
	if b.Initial, p = delay(args[0]); p != nil {
		return p
	}
	if b.Max, p = delay(args[1]); p != nil {
		return p
	}
	if b.Max < b.Initial {
		return &Problem{args[1].Pos, fmt.Sprintf("the maximum %s is below the first delay %s", args[1].Value, args[0].Value),
			"swap them or raise the maximum"}
	}
	return nil
}

func delay(v Text) (time.Duration, *Problem) {
	t, err := time.ParseDuration(v.Value)
	switch {
	case err != nil:
		return 0, &Problem{v.Pos, fmt.Sprintf("%q is not a delay", v.Value), "write a number and a unit, as in 200ms or 30s"}
	case t <= 0:
		return 0, &Problem{v.Pos, "the delay " + v.Value + " is not positive", "write a delay above zero, such as 1ms"}
	}
	return t, nil
}

func wrongCount(v Text, what, example string) *Problem {
	return &Problem{v.Pos, what, "write it as in " + example}
}
