package flows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The topics, hooks, values, streams and asks of the runs.
var (
	Letters = workflow.NewTopic[string]("tour-letters")
	Numbers = workflow.NewTopic[int]("tour-numbers")
	Cue     = workflow.NewTopic[string]("tour-cue")
	Payment = workflow.NewHook[int]("tour-payment")
	Stage   = workflow.NewValue[string]("tour-stage")
	Lines   = workflow.NewStream[string]("tour-lines")
	Ticks   = workflow.NewStream[int]("tour-ticks", workflow.KeepLast(5))
	Price   = workflow.NewAsk[int, int]("tour-price")
)

// read receives n letters. Then it waits briefly for another one.
//
//flow:workflow as=ReadLetters
func read(ctx workflow.Context, n int) ([]string, error) {
	var all []string
	for range n {
		letter, err := Letters.Receive(ctx)
		if err != nil {
			return all, err
		}
		all = append(all, letter)
	}
	if _, err := Letters.Receive(ctx, workflow.Timeout(20*time.Millisecond)); !errors.Is(err, workflow.ErrTimeout) {
		return all, fmt.Errorf("one letter too many: %w", err)
	}
	return all, nil
}

// forward sends letters to another run.
//
//flow:workflow
func forward(ctx workflow.Context, to string, n int) error {
	for i := range n {
		if err := Letters.SendFrom(ctx, workflow.RunID(to), fmt.Sprint("letter ", i)); err != nil {
			return err
		}
	}
	return nil
}

// collect receives payments through a hook, in any number of parts, and publishes the token of the
// hook. If it is started with a token, another run may use the same token.
//
//flow:workflow
func collect(ctx workflow.Context, token string, cents int) (int, error) {
	var opts []workflow.HookOption
	if token != "" {
		opts = append(opts, workflow.Token(token))
	}
	hook, err := Payment.Open(ctx, opts...)
	if err != nil {
		return 0, err
	}
	Stage.Set(ctx, hook.Token())
	got := 0
	for got < cents {
		paid, err := hook.Receive(ctx)
		if err != nil {
			return got, err
		}
		got += paid
	}
	hook.Dispose(ctx)
	Stage.Set(ctx, "paid")
	_, err = Cue.Receive(ctx) // The run continues after its hook was closed.
	return got, err
}

// haggle answers asks about a price until it receives a message to stop.
//
//flow:workflow
func haggle(ctx workflow.Context, price int) (int, error) {
	Price.Handle(ctx, func(percent int) error {
		if percent > 30 {
			return ErrNotYet
		}
		return nil
	}, func(_ workflow.Context, percent int) (int, error) {
		price -= price * percent / 100
		return price, nil
	})
	_, err := Cue.Receive(ctx)
	return price, err
}

// Pages is the input of scribble and publish. It specifies how many lines a step writes, and with
// how many goroutines.
type Pages struct {
	Writers int `json:"writers"`
	Each    int `json:"each"`
}

// scribble writes lines to a stream and closes the stream.
//
//flow:step retries=50 backoff=constant(20ms)
func scribble(ctx context.Context, p Pages) (int, error) {
	var all sync.WaitGroup
	errs := make([]error, p.Writers)
	for w := range p.Writers {
		all.Go(func() {
			for i := range p.Each {
				if errs[w] = step.Write(ctx, Lines, fmt.Sprintf("%d/%d", w, i)); errs[w] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return p.Writers * p.Each, errors.Join(errors.Join(errs...), step.Close(ctx, Lines))
}

// publish writes a chunk to a stream, and then executes a step that writes to the same stream. It
// also writes to a stream that keeps only its last chunks.
//
//flow:workflow
func publish(ctx workflow.Context, p Pages) (int, error) {
	Lines.Write(ctx, "begin")
	for i := range 20 {
		Ticks.Write(ctx, i)
	}
	return Scribble(ctx, p)
}
