package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/lab/tour/flows"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// messages sends each letter twice, both from outside and from another run, and checks that it is
// received once.
func messages(t *tour) (string, error) {
	const n = 20
	run, err := flows.ReadLetters.Start(t.ctx, t.client, 2*n)
	if err != nil {
		return "", err
	}
	for i := range n {
		for range 2 {
			letter := fmt.Sprint("card ", i)
			if err := flows.Letters.Send(t.ctx, run, letter, workflow.IdempotencyKey(letter)); err != nil {
				return "", err
			}
		}
	}
	if _, err := flows.Forward.Execute(t.ctx, t.client, flows.ForwardInput{To: string(run.ID()), N: n}); err != nil {
		return "", err
	}
	got, err := run.Result(t.ctx)
	if err != nil {
		return "", err
	}
	var want []string
	for _, what := range []string{"card ", "letter "} {
		for i := range n {
			want = append(want, what+strconv.Itoa(i))
		}
	}
	err = flows.Letters.Send(t.ctx, run, "too late")
	if !errors.Is(err, workflow.ErrRunTerminal) {
		return "", fmt.Errorf("a letter to a run that has ended: %w", err)
	}
	return fmt.Sprintf("%d messages, half of them sent twice, arrived once and in order; a receive timed out; a late one was refused", 2*n),
		expect("letters", got, want)
}

// hooks sends two payments with the token of a hook, each of them twice.
func hooks(t *tour) (string, error) {
	run, err := flows.Collect.Start(t.ctx, t.client, flows.CollectInput{Cents: 30})
	if err != nil {
		return "", err
	}
	token, err := flows.Stage.Wait(t.ctx, run)
	if err != nil {
		return "", err
	}
	for _, part := range []int{10, 10, 20, 20} {
		key := workflow.IdempotencyKey(fmt.Sprint("call ", part))
		if err := t.client.SendToHook(t.ctx, token, json.RawMessage(strconv.Itoa(part)), key); err != nil {
			if part == 20 && errors.Is(err, workflow.ErrHookDisposed) {
				continue // The hook may be closed before the second delivery.
			}
			return "", err
		}
	}
	if err := t.stage(run, "paid"); err != nil {
		return "", err
	}
	if err := flows.Payment.Send(t.ctx, t.client, token, 1); !errors.Is(err, workflow.ErrHookDisposed) {
		return "", fmt.Errorf("a payment to a closed hook: %w", err)
	}
	if err := flows.Payment.Send(t.ctx, t.client, "nobody's", 1); !errors.Is(err, workflow.ErrHookNotFound) {
		return "", fmt.Errorf("a payment with an unknown token: %w", err)
	}
	if err := flows.Cue.Send(t.ctx, run, "go"); err != nil {
		return "", err
	}
	got, err := run.Result(t.ctx)
	if err := errors.Join(err, expect("paid", got, 30)); err != nil {
		return "", err
	}
	return "two payloads, each sent twice, arrived once; unknown and closed tokens were refused; a taken token was a conflict", t.conflict()
}

// stage waits until a run has published the given value as its stage.
func (t *tour) stage(run workflow.Target, want string) error {
	for stage, err := range flows.Stage.Watch(t.ctx, run) {
		if err != nil || stage == want {
			return err
		}
	}
	return fmt.Errorf("the run has ended before its stage was %s", want)
}

// conflict starts two runs that open a hook with the same token.
func (t *tour) conflict() error {
	token := t.id("door")
	first, err := flows.Collect.Start(t.ctx, t.client, flows.CollectInput{Token: token, Cents: 5})
	if err != nil {
		return err
	}
	if err := t.stage(first, token); err != nil {
		return err
	}
	_, err = flows.Collect.Execute(t.ctx, t.client, flows.CollectInput{Token: token, Cents: 5})
	taken, ok := errors.AsType[*workflow.TokenConflictError](err)
	if !ok || taken.Holder != first.ID() {
		return fmt.Errorf("a second hook with the same token: %w", err)
	}
	if err := flows.Payment.Send(t.ctx, t.client, token, 5); err != nil {
		return err
	}
	if err := flows.Cue.Send(t.ctx, first, "go"); err != nil {
		return err
	}
	got, err := first.Result(t.ctx)
	return errors.Join(err, expect("paid at the door", got, 5))
}

// values checks the values that a run publishes.
func values(t *tour) (string, error) {
	run, err := flows.Collect.Start(t.ctx, t.client, flows.CollectInput{Cents: 1})
	if err != nil {
		return "", err
	}
	token, err := flows.Stage.Wait(t.ctx, run)
	if err != nil {
		return "", err
	}
	if err := flows.Payment.Send(t.ctx, t.client, token, 1); err != nil {
		return "", err
	}
	if err := t.stage(run, "paid"); err != nil {
		return "", err
	}
	if err := flows.Cue.Send(t.ctx, run, "go"); err != nil {
		return "", err
	}
	if _, err := run.Result(t.ctx); err != nil {
		return "", err
	}
	stage, ok, err := flows.Stage.Get(t.ctx, run)
	return "waited for, followed and read after the end of the run", errors.Join(err, expect("stage", fmt.Sprint(stage, ok), "paidtrue"))
}

// asks requests discounts from a run, and checks each answer and refusal.
func asks(t *tour) (string, error) {
	run, err := flows.Haggle.Start(t.ctx, t.client, 1000)
	if err != nil {
		return "", err
	}
	var prices []int
	for _, percent := range []int{10, 10, 20} {
		price, err := flows.Price.Ask(t.ctx, run, percent, workflow.IdempotencyKey(fmt.Sprint("percent ", percent)))
		if err != nil {
			return "", err
		}
		prices = append(prices, price)
	}
	if _, err := flows.Price.Ask(t.ctx, run, 50); !errors.Is(err, flows.ErrNotYet) {
		return "", fmt.Errorf("a question that is refused: %w", err)
	}
	if err := flows.Cue.Send(t.ctx, run, "stop"); err != nil {
		return "", err
	}
	got, err := run.Result(t.ctx)
	if err := errors.Join(err, expect("price", got, 720), expect("answers", prices, []int{900, 900, 720})); err != nil {
		return "", err
	}
	if _, err := flows.Price.Ask(t.ctx, run, 10); !errors.Is(err, workflow.ErrRunTerminal) {
		return "", fmt.Errorf("a question to a run that has ended: %w", err)
	}
	return "three questions, one of them asked twice, got two answers; one was refused by the run, one came too late", nil
}

// streams starts three readers that follow the output of a step with several goroutines.
func streams(t *tour) (string, error) {
	pages := flows.Pages{Writers: 20, Each: 100}
	run, err := flows.Publish.Start(t.ctx, t.client, pages)
	if err != nil {
		return "", err
	}
	var readers sync.WaitGroup
	got := make([][]workflow.Chunk[string], 3)
	errs := make([]error, 3)
	for i := range got {
		readers.Go(func() { got[i], errs[i] = t.lines(run, 1+uint64(i)*100) })
	}
	readers.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	attempts, err := whole(got[0], pages)
	if err != nil {
		return "", err
	}
	for i := range got {
		if !slices.Equal(got[0][i*100:], got[i]) {
			return "", fmt.Errorf("reader %d saw other chunks than the first", i+1)
		}
	}
	var last []workflow.Chunk[string]
	for c, err := range flows.Lines.Read(t.ctx, run, workflow.FromEnd(1)) {
		if err != nil {
			return "", err
		}
		last = append(last, c)
	}
	if !slices.Equal(last, got[0][len(got[0])-1:]) {
		return "", fmt.Errorf("the last chunk is %v", last)
	}
	written, err := run.Result(t.ctx)
	return fmt.Sprintf("%d chunks of %d attempts to 3 readers, from different places and from the end; all saw the close", len(got[0]), attempts),
		errors.Join(err, expect("written", written, pages.Writers*pages.Each))
}

// lines reads a stream to its end. It occasionally continues with a new reader.
func (t *tour) lines(run workflow.Target, from uint64) (all []workflow.Chunk[string], err error) {
	for {
		before := len(all)
		for c, err := range flows.Lines.Read(t.ctx, run, workflow.From(from)) {
			if err != nil {
				return all, err
			}
			all = append(all, c)
			from = c.Index + 1
			if len(all)%333 == 0 {
				break
			}
		}
		if len(all) == before {
			return all, nil
		}
	}
}

// whole checks that each attempt wrote its lines in order, and that the last attempt wrote all
// lines. It returns the number of attempts.
func whole(chunks []workflow.Chunk[string], pages flows.Pages) (attempts int, err error) {
	next := map[string]int{}
	for i, c := range chunks {
		if c.Index != uint64(i+1) {
			return attempts, fmt.Errorf("chunk %d has index %d", i+1, c.Index)
		}
		if i == 0 {
			if err := expect("the first chunk", fmt.Sprint(c.Value, c.Step), "begin"); err != nil {
				return attempts, err
			}
			continue
		}
		if c.Attempt > attempts {
			attempts = c.Attempt
			clear(next)
		}
		writer, line, _ := strings.Cut(c.Value, "/")
		if err := expect("line of writer "+writer, line, next[writer]); err != nil {
			return attempts, err
		}
		next[writer]++
	}
	for writer, n := range next {
		if n != pages.Each {
			return attempts, fmt.Errorf("writer %s of the last attempt has %d lines, want %d", writer, n, pages.Each)
		}
	}
	return attempts, expect("writers", len(next), pages.Writers)
}

// laggards checks that a reader is notified of missing chunks if a stream keeps only its last
// chunks.
func laggards(t *tour) (string, error) {
	run, err := flows.Publish.Start(t.ctx, t.client, flows.Pages{Writers: 1, Each: 1})
	if err != nil {
		return "", err
	}
	if _, err := run.Result(t.ctx); err != nil {
		return "", err
	}
	var lag *workflow.LagError
	for _, err := range flows.Ticks.Read(t.ctx, run, workflow.From(2)) {
		if !errors.As(err, &lag) {
			return "", fmt.Errorf("a reader that wants what is not kept: %w", err)
		}
	}
	if lag == nil {
		return "", errors.New("a reader that wants what is not kept was told nothing")
	}
	var ticks []int
	for c, err := range flows.Ticks.Read(t.ctx, run, workflow.From(lag.Next)) {
		if err != nil {
			return "", err
		}
		ticks = append(ticks, c.Value)
	}
	return fmt.Sprintf("a reader was told that it fell behind, and went on with chunk %d", lag.Next), expect("ticks", ticks, []int{15, 16, 17, 18, 19})
}
