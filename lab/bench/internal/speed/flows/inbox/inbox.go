// Package inbox is workflows that are sent messages.
package inbox

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Note is a message to a run.
type Note struct {
	N    int    `json:"n"` // what the run adds up; less than 0: the last one
	Data string `json:"data"`
}

// Notes is the topic of the messages.
var Notes = workflow.NewTopic[Note]("bench-notes")

// listener adds up the messages that it is sent.
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

// history makes a log with many steps, and then adds up messages until the last
// one comes.
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

// noop is a step that does nothing: the figures are those of the engine around it.
//
//flow:step
func noop(_ context.Context, data string) (string, error) { return data, nil }
