package runloop_test

import (
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
)

// line describes an action, for the trace and for comparisons.
func line(a *runloop.Action) string {
	var b strings.Builder
	b.WriteString(ops[a.Op])
	if a.Inbox || a.Claimed || a.N+a.Turn > 0 || a.Attempt > 0 || a.Err != nil || a.Fence.Epoch > 0 {
		fmt.Fprintf(&b, " inbox=%t claimed=%t n=%d turn=%d attempt=%d err=%v fence=%d", a.Inbox, a.Claimed, a.N, a.Turn, a.Attempt, a.Err, a.Fence.Epoch)
	}
	if a.Op == runloop.Wake || a.Most > 0 {
		fmt.Fprintf(&b, " most=%v due=%s looked=%s", a.Most, clock(a.Due), clock(a.Looked))
	}
	if a.Claim != nil {
		fmt.Fprintf(&b, " under=%d", a.Claim.Fence.Epoch)
	}
	if c := a.Commit; c != nil {
		r := &c.Req
		fmt.Fprintf(&b, " commit=%s prev=%s %d-%d effect=%d due=%s status=%s consume=%d/%s progress=%t exempt=%d closing=%t create=%t why=%q", r.CommitID, r.Prev, r.First, r.Last,
			r.Effect, clock(r.Due), r.Status, r.Consume, r.ConsumeLast, r.Progress, r.Exempt, r.Closing, c.Create, c.Why)
		fmt.Fprintf(&b, " unused=%d send=%d publish=%d sum=%x", r.Unused, len(r.Send), len(r.Publish), crc32.ChecksumIEEE(r.Frame))
		if f, err := event.DecodeFrame(r.Frame); err == nil {
			for i := range f.Events {
				e := &f.Events[i]
				fmt.Fprintf(&b, " [%d %s ref=%d n=%d %s %s due=%s %s]", e.Seq, e.Type, e.Ref, e.Attempt, e.Key, e.Payload, clock(e.Due), failed(e.Failure))
			}
		}
	}
	if s := a.Begin.Step; s != nil {
		fmt.Fprintf(&b, " step=%s ref=%d number=%d deadline=%s", s.Key, a.Begin.Ref, a.Begin.Number, clock(a.Begin.Deadline))
	}
	if o := a.Opening; o != nil {
		fmt.Fprintf(&b, " token=%s err=%v", o.Token, o.Err)
	}
	if a.Op == runloop.Log {
		fmt.Fprintf(&b, " %q %v", a.Line.Text, a.Line.Args)
	}
	return b.String()
}

func failed(f *event.Failure) string {
	if f == nil {
		return ""
	}
	return f.Code + ": " + f.Message
}

var ops = [...]string{
	runloop.Read: "Read", runloop.Send: "Send", runloop.Start: "Start", runloop.StopAttempt: "StopAttempt", runloop.Reveal: "Reveal",
	runloop.ReturnSlot: "ReturnSlot", runloop.Release: "Release", runloop.Leave: "Leave", runloop.SetAside: "SetAside", runloop.LineUp: "LineUp",
	runloop.BeginTurn: "BeginTurn", runloop.EndTurn: "EndTurn", runloop.Wake: "Wake", runloop.Decline: "Decline", runloop.Log: "Log",
	runloop.Observe: "Observe", runloop.Report: "Report",
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("05.000")
}

// show describes an input for the trace.
func show(in *runloop.Input) string {
	text := kinds[in.Kind]
	if c := in.Claim; c != nil {
		text += fmt.Sprintf(" epoch=%d seq=%d loaded=%t unread=%t recoveries=%d create=%t", c.Fence.Epoch, c.Seq, c.Loaded != nil, c.Unread, c.Recoveries, c.Create != nil)
	}
	if l := in.Load; l != nil {
		text += fmt.Sprintf(" epoch=%d inbox=%t frames=%d items=%d err=%v", l.Fence.Epoch, l.Inbox, len(l.Got.Frames), len(l.Got.Inbox), l.Got.Err)
	}
	if c := in.Commit; c != nil {
		text += fmt.Sprintf(" commit=%s err=%v unread=%t", c.Req.CommitID, c.Answer.Err, c.Answer.Unread)
	}
	if o := in.Outcome; o != nil {
		text += fmt.Sprintf(" ref=%d attempt=%d payload=%s failure=%s pending=%t stopped=%t", in.Ref, in.Attempt, o.Payload, failed(o.Failure), o.Pending, o.Stopped)
	}
	return strings.TrimSpace(fmt.Sprintf("%s fence=%d seq=%d turn=%d", text, in.Fence.Epoch, in.Seq, in.Turn))
}

var kinds = [...]string{
	runloop.Claimed: "Claimed", runloop.Loaded: "Loaded", runloop.Unread: "Unread", runloop.Ended: "Ended", runloop.Opened: "Opened", runloop.Answered: "Answered",
	runloop.Due: "Due", runloop.Lost: "Lost", runloop.Owned: "Owned", runloop.Stop: "Stop", runloop.Evict: "Evict", runloop.Drop: "Drop",
	runloop.GiveWay: "GiveWay", runloop.TurnOver: "TurnOver",
}
