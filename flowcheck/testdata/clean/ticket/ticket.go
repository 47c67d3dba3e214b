// Package ticket moves a support ticket from state to state.
package ticket

import (
	"context"
	"errors"
	"sort"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// State is where a ticket stands.
type State string

// The states.
const (
	Open   State = "open"
	Taken  State = "taken"
	Solved State = "solved"
	Closed State = "closed"
)

// Commands move a ticket.
var Commands = workflow.NewTopic[string]("commands")

// Now is the state of a ticket, for readers.
var Now = workflow.NewValue[State]("state")

var transitions = map[State]map[string]State{
	Open:   {"take": Taken, "close": Closed},
	Taken:  {"solve": Solved, "release": Open},
	Solved: {"reopen": Open, "close": Closed},
}

//flow:step
func tell(ctx context.Context, ticket string, state State) error { return ctx.Err() }

func known(state State) (commands []string) {
	for command := range transitions[state] {
		commands = append(commands, command)
	}
	sort.Strings(commands)
	return commands
}

// ticket follows commands until it is closed.
//
//flow:workflow
func ticket(ctx workflow.Context, id string) (State, error) {
	state := Open
	for state != Closed {
		Now.Set(ctx, state)
		command, err := Commands.Receive(ctx, workflow.Timeout(30*24*time.Hour))
		if errors.Is(err, workflow.ErrReceiveTimeout) {
			command = "close"
		} else if err != nil {
			return state, err
		}
		next, ok := transitions[state][command]
		if !ok {
			workflow.Logger(ctx).Info("unknown", "command", command, "known", known(state))
			continue
		}
		state = next
		if err := Tell(ctx, id, state); err != nil {
			return state, err
		}
	}
	return state, nil
}
