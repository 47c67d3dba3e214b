// Package quiet has what looks like a fault and is none.
package quiet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Rule is a row of a table.
type Rule struct {
	Name string
	Rate int
}

var (
	table   = []Rule{{"a", 1}, {"b", 2}}
	byName  = index(table)
	counter atomic.Int64
	load    sync.Once
	cached  map[string]int
	client  = &http.Client{Timeout: time.Minute}
	errNone = errors.New("none")
)

func index(rules []Rule) map[string]*Rule {
	by := make(map[string]*Rule)
	for i := range rules {
		by[rules[i].Name] = &rules[i]
	}
	return by
}

func init() { table = append(table, Rule{"c", 3}) }

func find(name string) *Rule {
	for i := range table {
		if r := &table[i]; r.Name == name {
			return r
		}
	}
	return nil
}

func rates() map[string]int {
	load.Do(func() {
		cached = make(map[string]int)
		for _, r := range table {
			cached[r.Name] = r.Rate
		}
	})
	return cached
}

//flow:step
func charge(ctx context.Context, id string, cents int) (string, error) {
	started := time.Now()
	_, err := client.Get("https://example.com")
	return fmt.Sprint(id, time.Since(started)), err
}

// tables reads constant tables, and a cache that is filled once.
//
//flow:workflow
func tables(ctx workflow.Context, name string) (string, error) {
	counter.Add(1)
	r := find(name)
	if r == nil || byName[name] == nil {
		return "", errNone
	}
	return Charge(ctx, name, r.Rate*rates()[name])
}

// handlers makes functions in the order of a map, and calls one of them.
//
//flow:workflow
func handlers(ctx workflow.Context, prices map[string]int) (string, error) {
	pay := make(map[string]func(workflow.Context) (string, error))
	for id, cents := range prices {
		pay[id] = func(ctx workflow.Context) (string, error) { return Charge(ctx, id, cents) }
	}
	for _, id := range slices.Sorted(maps.Keys(pay)) {
		if _, err := pay[id](ctx); err != nil {
			return "", err
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(prices)), " "), nil
}

// Serve has functions that take a context.Context, and are called elsewhere.
func Serve(c *workflow.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		run, err := Tables.Start(r.Context(), c, time.Now().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, run.ID())
	}
}

// writes writes to what may be a buffer.
//
//flow:workflow
func writes(ctx workflow.Context, lines []string) (string, error) {
	var b strings.Builder
	for _, line := range lines {
		write(&b, line)
	}
	retry := func(ctx context.Context) error { time.Sleep(time.Second); return ctx.Err() }
	_ = retry
	return Charge(ctx, b.String(), 1)
}

func write(w io.Writer, line string) { fmt.Fprintln(w, line) }

// waits has loops that end.
//
//flow:workflow
func waits(ctx workflow.Context, n int) (int, error) {
	sum := 0
	for {
		if sum += n; sum > 100 {
			break
		}
		n++
	}
	for i := 0; ; i++ {
		if i > n {
			return sum, nil
		}
	}
}
