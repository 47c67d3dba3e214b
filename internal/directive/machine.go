package directive

import (
	"fmt"
	"go/token"
	"strconv"
)

func setStart(d *Directive, v Text) *Problem { return stepOf(&d.Start, "start", v) }

func setCatch(d *Directive, v Text) *Problem { return stepOf(&d.Catch, "catch", v) }

// stepOf parses the name of a machine step, which is the name of its method.
func stepOf(into *string, option string, v Text) *Problem {
	if !token.IsIdentifier(v.Value) {
		return &Problem{v.Pos, fmt.Sprintf("%s=%s is not the name of a method", option, v.Value), "write the name of one step of the machine"}
	}
	*into = v.Value
	return nil
}

// maxTransitions exceeds the number of transitions that fit into a log. It rejects obvious
// mistakes.
const maxTransitions = 1_000_000

func setMax(d *Directive, v Text) *Problem {
	n, err := strconv.ParseUint(v.Value, 10, 31)
	if err != nil || n == 0 || n > maxTransitions {
		return &Problem{v.Pos, "max=" + v.Value + " is not a number of steps",
			fmt.Sprintf("write a whole number from 1 to %d, or leave the option out", maxTransitions)}
	}
	d.Max = int(n)
	return nil
}
