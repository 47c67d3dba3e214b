package directive

import (
	"fmt"
	"go/token"
	"strconv"
)

// onFail maps each kind of directive to the value that its onfail= option accepts.
var onFail = map[Kind]string{DAG: "finish", Step: "skip"}

// setOnFail parses onfail=finish of a graph and onfail=skip of a graph step.
func setOnFail(d *Directive, v Text) *Problem {
	if want := onFail[d.Kind]; v.Value != want {
		return &Problem{v.Pos, fmt.Sprintf("%s%s has no onfail=%s", prefix, d.Kind, v.Value), "write onfail=" + want + ", or leave it out: a failure then cancels the others"}
	}
	d.OnFail = v.Value
	return nil
}

func setAfter(d *Directive, v Text) *Problem {
	for _, name := range arguments(v) {
		var one Text
		if p := method(&one, "after", name); p != nil {
			return p
		}
		for _, other := range d.After {
			if other.Value == name.Value {
				return &Problem{name.Pos, "after names " + name.Value + " twice", "remove one of them"}
			}
		}
		d.After = append(d.After, one)
	}
	return nil
}

func setEach(d *Directive, v Text) *Problem { return method(&d.Each, "each", v) }

func setIf(d *Directive, v Text) *Problem { return method(&d.If, "if", v) }

func setResult(d *Directive, v Text) *Problem { return method(&d.Result, "result", v) }

// method parses the name of a method and stores it in into.
func method(into *Text, option string, v Text) *Problem {
	if token.IsIdentifier(v.Value) && v.Value != "_" {
		*into = v
		return nil
	}
	return &Problem{v.Pos, fmt.Sprintf("%s=%s is not the name of a method", option, v.Value), "write the name of a method of the graph's struct"}
}

func setStart(d *Directive, v Text) *Problem { return stepOf(&d.Start, "start", v) }

func setCatch(d *Directive, v Text) *Problem { return stepOf(&d.Catch, "catch", v) }

// stepOf parses the name of a machine step, which is a method name, and stores it in into.
func stepOf(into *string, option string, v Text) *Problem {
	if !token.IsIdentifier(v.Value) {
		return &Problem{v.Pos, fmt.Sprintf("%s=%s is not the name of a method", option, v.Value), "write the name of one step of the machine"}
	}
	*into = v.Value
	return nil
}

// maxTransitions is the maximum of max=. It exceeds the number of transitions that fit into a log
// and only rejects obvious mistakes.
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
