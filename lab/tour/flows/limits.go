package flows

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// What runs share.
var (
	Saws    = limit.New("tour.saws", limit.Config{AtOnce: 2})
	Benches = limit.New("tour.benches", limit.Config{AtOnce: 3})
	Counter = limit.NewKeyed[string]("tour.counter", limit.Config{AtOnce: 1})
	Window  = limit.NewKeyed[string]("tour.window", limit.Config{AtOnce: 1, Refuse: true})
	Press   = limit.NewKeyed[string]("tour.press", limit.Config{AtOnce: 1})
	Stamps  = limit.New("tour.stamps", limit.Config{Rate: 200, Burst: 1})
	Ink     = limit.NewLocal("tour.ink") // of each worker
)

// Shift is when an attempt used what it shares, in microseconds.
type Shift struct {
	Saws    int   `json:"saws"`
	Benches int   `json:"benches"`
	From    int64 `json:"from"`
	To      int64 `json:"to"`
}

// shift takes a moment.
func shift(saws, benches int) Shift {
	from := time.Now()
	time.Sleep(5 * time.Millisecond)
	return Shift{saws, benches, from.UnixMicro(), time.Now().UnixMicro()}
}

// saw needs a saw, and a bench to put the wood on.
//
//flow:step uses=Saws,Benches retries=50 backoff=constant(20ms)
func saw(context.Context) (Shift, error) { return shift(1, 1), nil }

// glue needs two benches and a saw.
//
//flow:step uses=Benches:2,Saws retries=50 backoff=constant(20ms)
func glue(context.Context) (Shift, error) { return shift(1, 2), nil }

// carpenter lets many saw and glue at once.
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

// serve has the counter of a customer until it gets its cue.
//
//flow:workflow uses=Counter(customer)
func serve(ctx workflow.Context, customer string) (string, error) { return Cue.Receive(ctx) }

// sell has a window until it gets its cue. Nobody queues there.
//
//flow:workflow uses=Window(window)
func sell(ctx workflow.Context, window string) (string, error) { return Cue.Receive(ctx) }

// guard, deploy, fetch and post each have one active run for a key, until it gets its cue.
//
//flow:workflow singleton=key
func guard(ctx workflow.Context, key string) (string, error) { return Cue.Receive(ctx) }

// deploy ends when a newer one begins.
//
//flow:workflow singleton=key,replace
func deploy(ctx workflow.Context, key string) (string, error) { return Cue.Receive(ctx) }

// fetch comes once more, however many want that.
//
//flow:workflow singleton=key,latest
func fetch(ctx workflow.Context, key string) (string, error) { return Cue.Receive(ctx) }

// post comes after all before it.
//
//flow:workflow singleton=key,queue
func post(ctx workflow.Context, key string) (string, error) { return Cue.Receive(ctx) }

// Copy is printed for a reader.
type Copy struct {
	Press  string `json:"press"`
	Reader string `json:"reader"`
	Rank   int    `json:"rank"`
	Waits  bool   `json:"waits"` // for its cue, with the press
}

// stamp says when a copy was printed, in microseconds.
//
//flow:step uses=Stamps,Ink:2 retries=50 backoff=constant(20ms)
func stamp(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }

// reprint has the press to itself. The higher rank comes first, and readers take turns.
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

// Page is written again and again.
type Page struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// typeset waits until nobody writes any more.
//
//flow:workflow debounce=page.Name,1s,20s
func typeset(_ workflow.Context, page Page) (string, error) { return page.Text, nil }

// bundle takes three letters to an address at once.
//
//flow:workflow batch=3,60s,letters.Name
func bundle(_ workflow.Context, letters []Page) ([]string, error) {
	var texts []string
	for _, letter := range letters {
		texts = append(texts, letter.Text)
	}
	return texts, nil
}
