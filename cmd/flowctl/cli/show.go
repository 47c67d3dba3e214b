package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
)

// shown is the JSON output of flowctl show.
type shown struct {
	admin.Run
	Log     admin.EventPage     `json:"log"`
	Streams []admin.StreamState `json:"streams,omitempty"`
}

func (c *command) show() *cobra.Command {
	var events, entities, open, tree, graph bool
	var from uint64
	var path string
	cmd := &cobra.Command{
		Use: "show RUN", Short: "Show a run: its history, what it waits for, and why it failed", Args: cobra.ExactArgs(1), ValidArgsFunction: c.ids,
		RunE: func(cmd *cobra.Command, args []string) error {
			graph = graph || path != ""
			if exclude(events, entities, tree, graph) || open && !entities {
				return &admin.InputError{What: "flags that exclude each other", Fix: "give one of --events, --entities, --graph and --tree, and --open with --entities"}
			}
			s, ctx, cancel, err := c.service(cmd.Context(), false)
			defer cancel()
			if err != nil {
				return err
			}
			r, err := s.Run(ctx, args[0])
			if err != nil {
				return err
			}
			switch {
			case entities:
				return c.entities(ctx, s, r.ID, admin.EntityFilter{From: from, Open: open})
			case tree:
				return c.tree(ctx, s, r.ID)
			case graph:
				return c.graph(ctx, s, r.ID, path)
			}
			return c.showRun(ctx, s, r, from, events)
		},
	}
	cmd.Flags().BoolVar(&events, "events", false, "show the events of the log instead")
	cmd.Flags().BoolVar(&entities, "entities", false, "show the steps, waits, hooks, children, messages and questions with their ids instead")
	cmd.Flags().BoolVar(&open, "open", false, "with --entities: show only the open ones")
	cmd.Flags().BoolVar(&tree, "tree", false, "show the tree of its child runs instead")
	cmd.Flags().BoolVar(&graph, "graph", false, "show the nodes of the graph that the run executes, with their states, instead")
	cmd.Flags().StringVar(&path, "path", "", "path of the graph for --graph, if the run executes several; empty: the first one")
	cmd.Flags().Uint64Var(&from, "from", 1, "number of the first event; at most 1,000 are shown")
	return cmd
}

// showRun prints a run, its streams, and its log from the event with number from. It prints the log
// as events or as a timeline.
func (c *command) showRun(ctx context.Context, s service, r admin.Run, from uint64, events bool) error {
	page, damage := s.Events(ctx, r.ID, from, 0)
	if damage != nil && !admin.ProblemOf(damage).Unreadable() {
		return damage
	}
	if damage != nil {
		page.Events = readable(ctx, s, r.ID, from)
	}
	streams, err := shownStreams(ctx, s, r.ID)
	if err != nil {
		return err
	}
	if c.hidden() {
		hide(&r, page.Events)
	}
	if c.jsonOut() {
		return errors.Join(c.print(shown{r, page, streams.Streams}), damage)
	}
	if err := c.head(&r, &streams); err != nil {
		return err
	}
	fmt.Fprintln(c.Stdout)
	if events {
		for i := range page.Events {
			c.line("", &page.Events[i])
		}
	} else if err := timeline(c.Stdout, &r, page.Events); err != nil {
		return err
	}
	if page.Next != 0 {
		fmt.Fprintf(c.Stderr, "more events: --from %d\n", page.Next)
	}
	return damage // Everything readable has been printed.
}

// exclude reports whether more than one of flags is true.
func exclude(flags ...bool) bool {
	n := 0
	for _, set := range flags {
		if set {
			n++
		}
	}
	return n > 1
}

// readable returns the events of a page that precede the damage in a log. A page has 1,000 events.
func readable(ctx context.Context, s service, run string, from uint64) []admin.Event {
	all := []admin.Event{}
	for e, err := range s.Follow(ctx, run, admin.EventFilter{From: from}) {
		if err != nil {
			break
		}
		if all = append(all, e); len(all) == 1000 {
			break
		}
	}
	return all
}

// shownStreams returns the first streams of a run. It returns none if the store cannot list them.
// The same applies to a server of an earlier release.
func shownStreams(ctx context.Context, s service, ref string) (admin.StreamList, error) {
	all, err := s.Streams(ctx, ref, admin.StreamFilter{})
	if p := admin.ProblemOf(err); err != nil && (p.Code == admin.CodeUnsupported || p.Code == admin.CodeNotFound) {
		return admin.StreamList{}, nil
	}
	return all, err
}

// hide removes the payloads of a run and of events, and those attributes that a program has set.
func hide(r *admin.Run, events []admin.Event) {
	r.Input, r.Result, r.Attributes = nil, nil, admin.KnownAttributes(r.Attributes)
	for i := range events {
		events[i].Payload, events[i].Attributes = nil, admin.KnownAttributes(events[i].Attributes)
	}
}

// head prints the properties of a run.
func (c *command) head(r *admin.Run, streams *admin.StreamList) error {
	t := newTable(c.Stdout, "run", r.ID)
	line := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	line("workflow", r.Workflow)
	line("id", r.WorkflowID)
	line("status", statusOf(r))
	line("queue", r.Queue)
	line("pinned to", ofBuild(r.Pin))
	line("created by", ofBuild(r.Attributes[event.AttributeBuild]))
	for name, value := range r.Tags {
		line("tag", name+"="+value)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Attributes)) {
		if key != event.AttributeBuild {
			line("attr", key+"="+r.Attributes[key])
		}
	}
	line("parent", r.Parent)
	line("rerun of", r.RerunOf)
	headTimes(line, r)
	line("due", instant(r.Due))
	line("waits", r.Waiting())
	for i := range r.WaitsFor {
		line("limit", r.WaitsFor[i].String()+", since "+instant(r.WaitsFor[i].Since))
	}
	line("group", r.Group)
	line("retried as", r.RetriedAs)
	line("input", string(r.Input))
	line("result", string(r.Result))
	line("next", r.Next)
	headFailureGroup(line, r)
	headStreams(line, r, streams)
	line("actions", strings.Join(r.Actions, " "))
	return t.end()
}

// ofBuild returns the text for a build, or "" if there is none.
func ofBuild(build string) string {
	if build == "" {
		return ""
	}
	return "build " + build
}

// statusOf returns the status of a run, with the reason why it is paused or ends.
func statusOf(r *admin.Run) string {
	status := r.Status
	if r.Paused && status != "paused" {
		status += ", paused"
	}
	if r.PauseReason != "" {
		status += ": " + r.PauseReason
	}
	if r.Canceling {
		status += ", cancelling"
		if r.CancelReason != "" {
			status += ": " + r.CancelReason
		}
	}
	return status
}

// headTimes prints the times of a run, and either its worker or the step that failed.
func headTimes(line func(name, value string), r *admin.Run) {
	line("created", instant(r.CreatedAt))
	line("started", instant(r.StartedAt))
	line("updated", instant(r.UpdatedAt))
	line("ended", instant(r.EndedAt))
	if r.Recoveries > 0 {
		line("recovered", plural(r.Recoveries, "time"))
	}
	if r.Recovery != nil {
		line("recovery", r.Recovery.String())
	}
	line("worker", r.Worker)
	if r.Below != nil {
		line("below", r.Below.String())
	}
	if r.FailedStep != nil {
		line("at step", r.FailedStep.String())
	}
}

// headFailureGroup prints the reason why a run does not progress, its failed attempts, and its
// failure.
func headFailureGroup(line func(name, value string), r *admin.Run) {
	switch {
	case r.Unserved && r.Pin != "":
		line("unserved", "no live worker of build "+r.Pin+" serves this workflow and queue: start one, or move its runs to another build with flowctl deploys retire "+r.Pin)
	case r.Unserved:
		line("unserved", "no live worker serves this workflow and queue: start one")
	}
	line("blocked", r.Blocked)
	line("damaged", r.Damaged)
	line("newer", r.Newer)
	for _, s := range r.Retries {
		next := "attempt " + fmt.Sprint(s.Attempt) + " is under way"
		if !s.Next.IsZero() {
			next = fmt.Sprintf("attempt %d at %s", s.Attempt+1, instant(s.Next))
		}
		line("retries", fmt.Sprintf("%s (%s): %s: %s", s.Step, s.Key, s.Failed, next))
	}
	if r.Failure != nil {
		failure(line, r.Failure, "failed")
	}
}

// headStreams prints the first streams of a run.
func headStreams(line func(name, value string), r *admin.Run, streams *admin.StreamList) {
	for i := range streams.Streams {
		one := &streams.Streams[i]
		line("stream", fmt.Sprintf("%s: %d chunks, %s", one.Name, one.Last, streamState(one)))
	}
	if streams.Next != "" {
		line("stream", "more streams: flowctl stream "+r.ID)
	}
}

// failure prints an error, its causes, and the origin of a panic.
func failure(line func(name, value string), f *admin.Failure, name string) {
	text := f.Message
	if f.Code != "" {
		text += " (" + f.Code + ")"
	}
	line(name, text)
	for at := range strings.Lines(f.Stack) {
		line("  at", strings.TrimSpace(at))
	}
	for _, cause := range f.Causes {
		failure(line, cause, "  cause")
	}
	line("undone", strings.Join(f.Undone, ", "))
	line("not undone", strings.Join(f.NotUndone, ", "))
}

// operation is a step, wait or other operation of a run, for the timeline.
type operation struct {
	admin.Event // the first event of the operation
	last        admin.Event
	attempts    int
}

// operations returns the operations that begin with one of the events, in order.
func operations(events []admin.Event) []*operation {
	var all []*operation
	at := map[uint64]*operation{}
	for _, e := range events {
		if e.Creates && e.Type != "run_created" {
			o := &operation{Event: e, last: e}
			at[e.Seq] = o
			all = append(all, o)
		} else if o := at[e.Ref]; o != nil && e.Ref != 0 {
			o.last = e
			o.attempts = max(o.attempts, e.Attempt)
		}
	}
	return all
}

// barWidth is the number of characters of a bar. The whole bar represents the time of the run.
const barWidth = 24

// timeline prints the operations of a run. A bar shows when each of them was executed.
func timeline(w io.Writer, r *admin.Run, events []admin.Event) error {
	end := r.EndedAt
	if end.IsZero() {
		end = time.Now()
	}
	t := newTable(w, "#", "OPERATION", "KEY", "STATE", "TOOK", "TIME", "")
	for _, o := range operations(events) {
		kind, _, _ := strings.Cut(o.Type, "_")
		state := strings.TrimPrefix(o.last.Type, kind+"_")
		if step, is := admin.StepOf(o.Name); is && kind == "child" { // Another run executes the step.
			kind, o.Name = "step", step
		}
		done := o.last.Time
		if !final(state) {
			done = end
		}
		var notes []string
		if o.attempts > 1 {
			notes = append(notes, fmt.Sprintf("%d attempts", o.attempts))
		}
		if f := o.last.Failure; f != nil {
			notes = append(notes, f.Message)
		}
		if !final(state) && !o.last.Due.IsZero() {
			notes = append(notes, "due "+instant(o.last.Due))
		}
		t.row(fmt.Sprint(o.Seq), strings.TrimSpace(kind+" "+o.Name), o.Key, state, took(done.Sub(o.Time)), bar(r.CreatedAt, end, o.Time, done), strings.Join(notes, ", "))
	}
	return t.end()
}

// final reports whether an operation in the given state has ended.
func final(state string) bool {
	switch state {
	case "completed", "failed", "cancelled", "recorded", "set", "received", "disposed", "kept", "written", "closed", "conflict":
		return true
	}
	return false
}

// bar draws the interval from start to end as a part of the interval from from to to.
func bar(start, end, from, to time.Time) string {
	total := max(end.Sub(start), time.Millisecond)
	at := func(t time.Time) int {
		return min(max(int(float64(barWidth)*float64(t.Sub(start))/float64(total)), 0), barWidth)
	}
	a := min(at(from), barWidth-1)
	b := max(at(to), a+1)
	return "|" + strings.Repeat(".", a) + strings.Repeat("=", b-a) + strings.Repeat(".", barWidth-b) + "|"
}

func (c *command) wait() *cobra.Command {
	return &cobra.Command{
		Use: "wait RUN", Short: "Wait for the end of a run and print its result", Args: cobra.ExactArgs(1), ValidArgsFunction: c.ids,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, ctx, cancel, err := c.service(cmd.Context(), true)
			defer cancel()
			if err != nil {
				return err
			}
			r, err := ended(ctx, s, args[0])
			if err != nil {
				return err
			}
			if c.hidden() {
				hide(&r, nil)
			}
			switch {
			case c.jsonOut():
				if err := c.print(r); err != nil {
					return err
				}
				if r.Status != "completed" { // The output contains the status, so print nothing more.
					return exitError{code: exitFailed}
				}
			case r.Result != nil:
				fmt.Fprintln(c.Stdout, string(r.Result))
			}
			if r.Status == "completed" {
				return nil
			}
			why := r.Status
			if r.Failure != nil {
				why += ": " + r.Failure.Message
			}
			return exitError{exitFailed, fmt.Errorf("run %s %s", r.ID, why)}
		},
	}
}

// ended follows a run and the runs that continue it until their end. It returns the last run.
func ended(ctx context.Context, s service, ref string) (admin.Run, error) {
	for {
		for _, err := range s.Follow(ctx, ref, admin.EventFilter{}) {
			if err != nil {
				return admin.Run{}, err
			}
		}
		if err := ctx.Err(); err != nil {
			return admin.Run{}, err
		}
		r, err := s.Run(ctx, ref)
		if err != nil || r.Next == "" {
			return r, err
		}
		ref = r.Next
	}
}
