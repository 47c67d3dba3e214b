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

// What runs are told, tell, and are asked.
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

// read takes letters, and one more for which it does not wait for long.
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

// forward sends letters on to another run.
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

// collect is paid through a hook, in as many parts as it takes, and says which
// token to use. With a token of its own it may find that somebody else has it.
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
	_, err = Cue.Receive(ctx) // so that its hook is closed while it goes on
	return got, err
}

// haggle answers questions about a price until it is told to stop.
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

// Pages says how much a step writes, and by how many goroutines.
type Pages struct {
	Writers int `json:"writers"`
	Each    int `json:"each"`
}

// scribble writes a stream, and closes it.
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

// publish lets a step write a stream, between chunks of its own; of another stream
// only the last chunks are kept.
//
//flow:workflow
func publish(ctx workflow.Context, p Pages) (int, error) {
	Lines.Write(ctx, "begin")
	for i := range 20 {
		Ticks.Write(ctx, i)
	}
	return Scribble(ctx, p)
}
