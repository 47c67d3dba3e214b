// Package flows holds the workflows that the speed program measures. They are
// generated like those of any user, so that what is measured is what users run.
package flows

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//go:generate go run github.com/flowgen/flowgen/cmd/flowgen

// Note is a message to a run.
type Note struct {
	N    int    `json:"n"` // what the run adds up; less than 0: the last one
	Data string `json:"data"`
}

// Notes is the topic of the messages.
var Notes = workflow.NewTopic[Note]("bench-notes")

// Probe sees the steps of long runs go by.
type Probe struct {
	// Seen is called when step n of a run executes; nil: it is not looked at.
	Seen func(n int)
}

// noop is a step that does nothing: what is measured is what surrounds it.
//
//flow:step
func noop(_ context.Context, data string) (string, error) { return data, nil }

// mark is noop, and tells when it is executed.
//
//flow:step
func (p *Probe) mark(_ context.Context, n int, data string) (string, error) {
	if p.Seen != nil {
		p.Seen(n)
	}
	return data, nil
}

// chain executes steps one after the other, each with the result of the one
// before.
//
//flow:workflow
func chain(ctx workflow.Context, steps int, data string) (string, error) {
	var err error
	for range steps {
		if data, err = Noop(ctx, data); err != nil {
			return "", err
		}
	}
	return data, nil
}

// long is chain, with steps that can be told apart.
//
//flow:workflow
func long(ctx workflow.Context, steps int, data string) (string, error) {
	var err error
	for n := range steps {
		if data, err = Mark(ctx, n, data); err != nil {
			return "", err
		}
	}
	return data, nil
}

// fanout executes steps all at once and returns how many gave back their input.
//
//flow:workflow
func fanout(ctx workflow.Context, steps int, data string) (int, error) {
	items := make([]string, steps)
	for i := range items {
		items[i] = data
	}
	results, err := workflow.Map(ctx, items, Noop)
	same := 0
	for i, r := range results {
		if r == items[i] {
			same++
		}
	}
	return same, err
}

// sleeper sleeps until a time of the clock.
//
//flow:workflow
func sleeper(ctx workflow.Context, until time.Time, data string) (string, error) {
	if err := workflow.SleepUntil(ctx, until); err != nil {
		return "", err
	}
	if now := workflow.Now(ctx); now.Before(until) {
		return "", fmt.Errorf("woken at %v, before %v", now, until)
	}
	return data, nil
}

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
