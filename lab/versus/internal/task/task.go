// Package task contains the work that all systems execute: runs of steps that return their input.
package task

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Input is the input of a run.
type Input struct {
	Run      int    `json:"run"` // unique in a measurement
	Steps    int    `json:"steps"`
	Parallel bool   `json:"parallel"` // whether the steps are executed in parallel instead of in sequence
	Data     string `json:"data"`
}

// NewInput returns the input of a run. No two runs have equal data.
func NewInput(run, steps int, parallel bool) Input {
	return Input{Run: run, Steps: steps, Parallel: parallel, Data: payload(run)}
}

// Step returns the input of a step. In a sequence, data is the result of the previous step.
func (in Input) Step(n int, data string) Step {
	return Step{Run: in.Run, Number: n, Data: data}
}

// Join returns the result of a run with parallel steps: the data that all steps returned.
func (in Input) Join(results []string) (string, error) {
	for n, r := range results {
		if r != in.Data {
			return "", fmt.Errorf("step %d of run %d returned %q, want %q", n, in.Run, r, in.Data)
		}
	}
	return in.Data, nil
}

// payload returns 100 bytes that contain the number n.
func payload(n int) string {
	text := append(strconv.AppendInt([]byte("payload of run "), int64(n), 10), ' ')
	for len(text) < 100 {
		text = append(text, 'x')
	}
	return string(text)
}

// Step is the input of a step.
type Step struct {
	Run    int    `json:"run"`
	Number int    `json:"number"`
	Data   string `json:"data"`
}

// Probe is the code of all steps. It observes them in the process that executes them.
type Probe struct {
	executed atomic.Int64
	wrong    atomic.Int64

	mu      sync.Mutex
	watched map[int]*Watch
}

// Watch observes the steps of a run.
type Watch struct {
	Done chan struct{} // closed when each step has been executed

	mu    sync.Mutex
	began time.Time
	times []time.Time // time of the first execution of each step
	left  int
}

// Watch observes the steps of a run that is about to start.
func (p *Probe) Watch(in Input) *Watch {
	w := &Watch{Done: make(chan struct{}), began: time.Now(), times: make([]time.Time, in.Steps), left: in.Steps}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watched == nil {
		p.watched = map[int]*Watch{}
	}
	p.watched[in.Run] = w
	return w
}

// Do executes a step. It returns the data of the step.
func (p *Probe) Do(s Step) string {
	p.executed.Add(1)
	if s.Data != payload(s.Run) {
		p.wrong.Add(1)
	}
	p.mu.Lock()
	w := p.watched[s.Run]
	p.mu.Unlock()
	if w != nil {
		w.see(s.Number)
	}
	return s.Data
}

// Executed returns the number of executions of steps, including repeated ones.
func (p *Probe) Executed() int { return int(p.executed.Load()) }

// Wrong returns the number of executions whose data was not the data of their run.
func (p *Probe) Wrong() int { return int(p.wrong.Load()) }

func (w *Watch) see(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.times[n].IsZero() {
		return
	}
	w.times[n] = time.Now()
	if w.left--; w.left == 0 {
		close(w.Done)
	}
}

// Latency returns the time from the call of Watch until the last step was executed. It must be
// called after Done is closed.
func (w *Watch) Latency() time.Duration {
	var last time.Time
	for _, at := range w.times {
		if at.After(last) {
			last = at
		}
	}
	return last.Sub(w.began)
}

// Gaps returns the times between consecutive steps. It must be called after Done is closed.
func (w *Watch) Gaps() []time.Duration {
	gaps := make([]time.Duration, 0, len(w.times))
	for i := 1; i < len(w.times); i++ {
		gaps = append(gaps, w.times[i].Sub(w.times[i-1]))
	}
	return gaps
}
