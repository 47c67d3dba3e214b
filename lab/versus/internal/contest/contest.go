// Package contest measures all systems with all workloads, each measurement in a process of its own
// and on an empty store.
package contest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/lab/versus/internal/measure"
	"github.com/flowgen/flowgen/lab/versus/internal/peer"
	"github.com/flowgen/flowgen/lab/versus/internal/server"
)

// Contest is a comparison.
type Contest struct {
	Systems   []*peer.System
	Workloads []*measure.Workload
	Options   measure.Options
	Rounds    int
	Dir       string // directory for the files of servers and stores
	Progress  io.Writer

	versions map[string]string
	postgres *server.Server
	broken   map[peer.Store]error // why a server cannot be started
}

// Run measures. It returns medians by workload and system, and the versions of the servers. A
// system that cannot be measured has a result that contains the reason.
func (c *Contest) Run(ctx context.Context) ([]*measure.Result, map[string]string, error) {
	c.versions, c.broken = map[string]string{}, map[peer.Store]error{}
	defer func() {
		if c.postgres != nil {
			c.postgres.Stop()
		}
	}()
	results := map[*measure.Workload]map[*peer.System][]*measure.Result{}
	for round := range c.Rounds {
		systems := slices.Clone(c.Systems)
		if round%2 == 1 {
			slices.Reverse(systems)
		}
		for _, w := range c.Workloads {
			if results[w] == nil {
				results[w] = map[*peer.System][]*measure.Result{}
			}
			for _, s := range systems {
				if !w.Fits(s) {
					continue
				}
				r, err := c.one(ctx, s, w)
				if ctx.Err() != nil {
					return nil, nil, ctx.Err()
				}
				if err != nil {
					r = &measure.Result{System: s.Name, Version: s.Version(), Store: string(s.Store), Workload: w.Name, Skipped: err.Error()}
				}
				c.print(round, r)
				results[w][s] = append(results[w][s], r)
			}
		}
	}
	var all []*measure.Result
	for _, w := range c.Workloads {
		for _, s := range c.Systems {
			if found := results[w][s]; len(found) > 0 {
				all = append(all, measure.Median(found))
			}
		}
	}
	return all, c.versions, nil
}

func (c *Contest) print(round int, r *measure.Result) {
	what := fmt.Sprintf("%.0f steps/s", r.StepsPerSecond)
	switch {
	case r.Skipped != "":
		what = "skipped: " + r.Skipped
	case r.StepsPerSecond == 0:
		what = fmt.Sprintf("p50 %.2f ms", r.P50)
	}
	fmt.Fprintf(c.Progress, "round %d of %d: %s: %s on %s: %s\n", round+1, c.Rounds, r.Workload, r.System, r.Store, what)
}

// one measures a system in a process of its own.
func (c *Contest) one(ctx context.Context, s *peer.System, w *measure.Workload) (*measure.Result, error) {
	if err := c.broken[s.Store]; err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Dir, "versus-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	o := order{System: s.ID(), Workload: w.Name, Options: c.Options, Dir: dir, Answer: filepath.Join(dir, "result.json")}
	end, err := c.prepare(ctx, s, &o)
	if err != nil {
		c.broken[s.Store] = err
		return nil, err
	}
	defer end()
	return o.send(ctx)
}

// prepare starts the server that a system needs, or creates a database on it. end removes both.
func (c *Contest) prepare(ctx context.Context, s *peer.System, o *order) (end func(), err error) {
	switch s.Store {
	case peer.Redis:
		r, err := server.StartRedis(ctx, o.Dir)
		if err != nil {
			return nil, err
		}
		c.versions[string(s.Store)], o.URL, o.PID = r.Version, r.RedisURL(), r.PID
		return r.Stop, nil
	case peer.PostgreSQL:
		if c.postgres == nil {
			dir, err := os.MkdirTemp(c.Dir, "versus-postgresql-")
			if err != nil {
				return nil, err
			}
			if c.postgres, err = server.StartPostgreSQL(ctx, dir); err != nil {
				return nil, err
			}
		}
		name := filepath.Base(o.Dir)
		if o.URL, err = c.postgres.NewDatabase(ctx, name); err != nil {
			return nil, err
		}
		c.versions[string(s.Store)], o.PID = c.postgres.Version, c.postgres.PID
		return func() { _ = c.postgres.DropDatabase(context.WithoutCancel(ctx), name) }, nil
	}
	return func() {}, nil
}

// order is the command for a process to measure.
type order struct {
	System   string          `json:"system"`
	Workload string          `json:"workload"`
	Options  measure.Options `json:"options"`
	URL      string          `json:"url"`
	PID      int             `json:"pid"`
	Dir      string          `json:"dir"`
	Answer   string          `json:"answer"` // file for the result
}

// variable is the environment variable with the order of a process.
const variable = "VERSUS_ORDER"

// send starts a process for the order and returns its result.
func (o *order) send(ctx context.Context) (*measure.Result, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), variable+"="+string(text))
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return nil, fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	answer, err := os.ReadFile(o.Answer)
	if err != nil {
		return nil, err
	}
	r := &measure.Result{}
	return r, json.Unmarshal(answer, r)
}

// Obey executes the order of this process, if it has one. isChild reports whether it has.
func Obey(ctx context.Context) (isChild bool, err error) {
	text := os.Getenv(variable)
	if text == "" {
		return false, nil
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return true, fmt.Errorf("read %s: %w", variable, err)
	}
	s, w := System(o.System), Workload(o.Workload)
	if s == nil || w == nil {
		return true, errors.New("unknown system or workload")
	}
	r, err := measure.Measure(ctx, s, w, peer.Env{URL: o.URL, Dir: o.Dir}, o.Options, o.PID)
	if err != nil {
		return true, err
	}
	answer, err := json.Marshal(r)
	if err != nil {
		return true, err
	}
	return true, os.WriteFile(o.Answer, answer, 0o600)
}

// System returns the system with an ID, or nil.
func System(id string) *peer.System {
	for _, s := range peer.Systems {
		if s.ID() == id {
			return s
		}
	}
	return nil
}

// Workload returns the workload with a name, or nil.
func Workload(name string) *measure.Workload {
	for _, w := range measure.Workloads {
		if w.Name == name {
			return w
		}
	}
	return nil
}
