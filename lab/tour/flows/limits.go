package flows

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The limits that runs share.
var (
	Saws    = limit.New("tour.saws", limit.Config{AtOnce: 2})
	Benches = limit.New("tour.benches", limit.Config{AtOnce: 3})
	Counter = limit.NewKeyed[string]("tour.counter", limit.Config{AtOnce: 1})
	Window  = limit.NewKeyed[string]("tour.window", limit.Config{AtOnce: 1, Refuse: true})
	Press   = limit.NewKeyed[string]("tour.press", limit.Config{AtOnce: 1})
	Stamps  = limit.New("tour.stamps", limit.Config{Rate: 200, Burst: 1})
	Ink     = limit.NewLocal("tour.ink") // each worker has its own limit
)

// Shift is the interval in which an attempt used shared resources. The times are in microseconds.
type Shift struct {
	Saws    int   `json:"saws"`
	Benches int   `json:"benches"`
	From    int64 `json:"from"`
	To      int64 `json:"to"`
}

// shift sleeps for a short time and returns the interval.
func shift(saws, benches int) Shift {
	from := time.Now()
	time.Sleep(5 * time.Millisecond)
	return Shift{saws, benches, from.UnixMicro(), time.Now().UnixMicro()}
}

// saw uses one saw and one bench.
//
//flow:step uses=Saws,Benches retries=50 backoff=constant(20ms)
func saw(context.Context) (Shift, error) { return shift(1, 1), nil }

// glue uses one saw and two benches.
//
//flow:step uses=Benches:2,Saws retries=50 backoff=constant(20ms)
func glue(context.Context) (Shift, error) { return shift(1, 2), nil }

// carpenter executes saw and glue in parallel.
//
//flow:workflow
func carpenter(ctx workflow.Context, jobs int) ([]Shift, error) {
	return workflow.Map(ctx, make([]int, jobs), func(ctx workflow.Context, _ int) (Shift, error) {
		if _, err := Saw(ctx); err != nil {
			return Shift{}, err
		}
		return Glue(ctx)
	})
}

// serve holds a limit for the counter of a customer until it receives a cue.
//
//flow:workflow uses=Counter(customer)
func serve(ctx workflow.Context, customer string) (string, error) { return Cue.Receive(ctx) }

// sell holds a limit for a window until it receives a cue. A start is rejected if no window is
// free.
//
//flow:workflow uses=Window(window)
func sell(ctx workflow.Context, window string) (string, error) { return Cue.Receive(ctx) }

// guard has one active run per key. A start while the run is active returns that run. The run ends
// when it receives a cue.
//
//flow:workflow singleton=key
func guard(ctx workflow.Context, key string) (string, error) { return Cue.Receive(ctx) }

// deploy has one active run per key, which a newer start cancels.
//
//flow:workflow singleton=key,replace
func deploy(ctx workflow.Context, key string) (string, error) { return Cue.Receive(ctx) }

// fetch has one active run per key. All starts during that run lead to one further run.
//
//flow:workflow singleton=key,latest
func fetch(ctx workflow.Context, key string) (string, error) { return Cue.Receive(ctx) }

// post has one active run per key. Further starts wait until all earlier runs with the same key
// have ended.
//
//flow:workflow singleton=key,queue
func post(ctx workflow.Context, key string) (string, error) { return Cue.Receive(ctx) }

// Copy is the input of reprint. A copy is printed for a reader.
type Copy struct {
	Press  string `json:"press"`
	Reader string `json:"reader"`
	Rank   int    `json:"rank"`
	Waits  bool   `json:"waits"` // the run waits for a cue while it holds the press
}

// stamp returns the current time in microseconds.
//
//flow:step uses=Stamps,Ink:2 retries=50 backoff=constant(20ms)
func stamp(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }

// reprint holds the press, which admits one run at a time. A copy with a higher rank is printed
// first. Among copies of equal rank, the readers alternate.
//
//flow:workflow uses=Press(c.Press) priority=c.Rank fair=c.Reader
func reprint(ctx workflow.Context, c Copy) (int64, error) {
	if c.Waits {
		if _, err := Cue.Receive(ctx); err != nil {
			return 0, err
		}
	}
	return Stamp(ctx)
}

// Page is the input of typeset. A page is changed repeatedly.
type Page struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// typeset is debounced. It runs after the last change of a page.
//
//flow:workflow debounce=page.Name,1s,20s
func typeset(_ workflow.Context, page Page) (string, error) { return page.Text, nil }

// bundle is batched. It sends three letters to the same address in one run.
//
//flow:workflow batch=3,60s,letters.Name
func bundle(_ workflow.Context, letters []Page) ([]string, error) {
	var texts []string
	for _, letter := range letters {
		texts = append(texts, letter.Text)
	}
	return texts, nil
}
