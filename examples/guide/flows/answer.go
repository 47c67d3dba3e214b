package flows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Words is a stream of the words of an answer. Readers follow it while it is written. Load is a
// stream of the last ten measurements of the writer.
var (
	Words = workflow.NewStream[string]("words")
	Load  = workflow.NewStream[int]("load", workflow.KeepLast(10))
)

// compose writes an answer word by word.
//
//flow:step
func compose(ctx context.Context, question string) (string, error) {
	answer := "to " + question + " there is no answer"
	for word := range strings.FieldsSeq(answer) {
		if err := step.Write(ctx, Words, word); err != nil {
			return "", err
		}
	}
	return answer, step.Close(ctx, Words)
}

// reply answers a question.
//
//flow:workflow
func reply(ctx workflow.Context, question string) (string, error) {
	Words.Write(ctx, "Well,")
	for i := range 12 {
		Load.Write(ctx, i)
	}
	return Compose(ctx, question)
}

// Print prints an answer while it is written, starting with chunk number from. If Print is
// interrupted, next is the number with which to continue.
func Print(ctx context.Context, run workflow.Target, from uint64, out io.Writer) (next uint64, err error) {
	next = from
	attempt := 0
	for c, err := range Words.Read(ctx, run, workflow.From(from)) {
		if err != nil {
			return next, err
		}
		if c.Attempt > 1 && c.Attempt > attempt { // The previous attempt failed, so its words are invalid.
			_, _ = fmt.Fprint(out, "… once more: ")
		}
		attempt = c.Attempt
		if _, err := fmt.Fprint(out, c.Value, " "); err != nil {
			return next, err
		}
		next = c.Index + 1
	}
	return next, nil
}

// Measurements calls show for the measurements of a run as they are written. It skips measurements
// that arrive faster than show returns.
func Measurements(ctx context.Context, run workflow.Target, show func(int)) error {
	for from := uint64(0); ; {
		err := measurements(ctx, run, from, show)
		lag, behind := errors.AsType[*workflow.LagError](err)
		if !behind {
			return err
		}
		from = lag.Next
	}
}

func measurements(ctx context.Context, run workflow.Target, from uint64, show func(int)) error {
	for c, err := range Load.Read(ctx, run, workflow.From(from)) {
		if err != nil {
			return err
		}
		show(c.Value)
	}
	return nil
}
