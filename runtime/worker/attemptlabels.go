package worker

import (
	"context"
	"runtime/pprof"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// attemptLabels are what a profile shows of attempts.
type attemptLabels struct {
	run  event.RunID
	step string
	ctx  context.Context
}

// labelsOf returns the labels of an attempt. The run keeps them for the next one: most
// runs call few steps, again and again.
func labelsOf(run *replay.Run, info *at.Attempt) *attemptLabels {
	l, ok := run.Meta.(*attemptLabels)
	if !ok || l.run != info.Run || l.step != info.Step {
		labels := pprof.Labels("flowgen_run", string(info.Run), "flowgen_step", info.Step)
		l = &attemptLabels{info.Run, info.Step, pprof.WithLabels(context.Background(), labels)}
		run.Meta = l
	}
	return l
}
