// Package inbox contains workflows that receive messages.
package inbox

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Note is a message to a run.
type Note struct {
	N    int    `json:"n"` // number to add; negative in the last message
	Data string `json:"data"`
}

// Notes is the topic on which runs receive messages.
var Notes = workflow.NewTopic[Note]("bench-notes")

// listener receives messages and returns their sum.
//
//flow:workflow
func listener(ctx workflow.Context, messages int) (int, error) {
	sum := 0
	for range messages {
		note, err := Notes.Receive(ctx)
		if err != nil {
			return 0, err
		}
		sum += note.N
	}
	return sum, nil
}

// history executes many steps to create a long log. Then it adds up messages until the last one.
//
//flow:workflow
func history(ctx workflow.Context, steps int, data string) (int, error) {
	for range steps {
		if _, err := Noop(ctx, data); err != nil {
			return 0, err
		}
	}
	for sum := 0; ; {
		note, err := Notes.Receive(ctx)
		if err != nil || note.N < 0 {
			return sum, err
		}
		sum += note.N
	}
}

// noop returns its input, so that only the engine is measured.
//
//flow:step
func noop(_ context.Context, data string) (string, error) { return data, nil }
