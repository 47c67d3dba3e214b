package orders

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/flowgen/flowgen/runtime/step"
)

// Shop contains the dependencies of the steps.
type Shop struct {
	Effects string // path of the file in which executions are recorded; empty: none
	mu      sync.Mutex
}

// effect records the execution of a step in the effects file.
func (s *Shop) effect(ctx context.Context) {
	call, _ := step.Current(ctx)
	if s.Effects == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(s.Effects, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %d\n", call.Step, call.Attempt)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(fmt.Sprintf("write effects: %v", err))
	}
}
