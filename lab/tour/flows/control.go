package flows

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Play is the input of perform. A play consists of acts that are noted in a book, and of a wait for
// a cue between two acts.
type Play struct {
	Book string `json:"book"`
	Acts int    `json:"acts"`
	Cue  int    `json:"cue"` // the act before which the play waits; negative if it does not wait
}

// perform executes the acts of a play and waits for the cue.
//
//flow:workflow
func perform(ctx workflow.Context, p Play) ([]string, error) {
	var done []string
	for act := range p.Acts {
		if act == p.Cue {
			cue, err := Cue.Receive(ctx)
			if err != nil {
				if errors.Is(err, workflow.ErrCanceled) { // The run was canceled, so clean up.
					_, cleaned := Note(workflow.Detached(ctx), p.Book, "sweep the stage")
					err = errors.Join(err, cleaned)
				}
				return done, err
			}
			done = append(done, "cue "+cue)
		}
		line, err := Note(ctx, p.Book, fmt.Sprint("act ", act))
		if err != nil {
			return done, err
		}
		done = append(done, line)
	}
	return done, nil
}

// travel makes three bookings and then fails. Compensations cancel the bookings in reverse order.
//
//flow:workflow
func travel(ctx workflow.Context, book string) error {
	for _, what := range []string{"hotel", "flight", "car"} {
		if _, err := Note(ctx, book, "book "+what); err != nil {
			return err
		}
		workflow.Compensate(ctx, func(ctx workflow.Context) error {
			if what == "car" {
				if err := Work(ctx, 300*time.Millisecond); err != nil { // With -chaos, the tour may kill workers during this time.
					return err
				}
			}
			_, err := Note(ctx, book, "cancel "+what)
			return err
		})
	}
	return Allow(ctx, book, "pay")
}

// open executes two steps. The second one fails unless a book contains a permission.
//
//flow:workflow as=OpenShop
func open(ctx workflow.Context, book string) (string, error) {
	line, err := Note(ctx, book, "unlock")
	if err != nil {
		return "", err
	}
	return line + ", open", Allow(ctx, book, "permit")
}

// change simulates changes of its code. A run keeps the version that its first call of Version
// returned.
//
//flow:workflow
func change(ctx workflow.Context, rounds int) ([]int, error) {
	var versions []int
	for latest := 1; latest <= rounds; latest++ { // Each round simulates a change of the code.
		versions = append(versions, workflow.Version(ctx, "tour-price", latest), workflow.Version(ctx, fmt.Sprint("tour-change-", latest), latest)) //flow:ignore version stands for changes of the code
		if err := Work(ctx, time.Millisecond); err != nil {
			return versions, err
		}
	}
	return versions, nil
}

// places calls steps on the queue of the run and on other queues.
//
//flow:workflow
func places(ctx workflow.Context, line string) ([]string, error) {
	here, err := Near(ctx, line)
	if err != nil {
		return nil, err
	}
	there, err := Far(ctx, line)
	if err != nil {
		return nil, err
	}
	chosen, err := Near(workflow.WithStepOptions(ctx, workflow.Queue("far")), line)
	return []string{here, there, chosen}, err
}

// save deposits money in several parts.
//
//flow:workflow
func save(ctx workflow.Context, account string, parts int) (int64, error) {
	for range parts {
		if _, err := Deposit(ctx, account, 1); err != nil {
			return 0, err
		}
	}
	return Deposit(ctx, account, 0)
}

// toil executes steps. Each step writes a note.
//
//flow:workflow
func toil(ctx workflow.Context, book string, steps int) (int, error) {
	for i := range steps {
		if err := Work(ctx, 20*time.Millisecond); err != nil {
			return i, err
		}
		if _, err := Note(ctx, book, fmt.Sprint("step ", i)); err != nil {
			return i, err
		}
	}
	return steps, nil
}
