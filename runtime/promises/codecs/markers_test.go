//go:build !inmemory

package codecs_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/archive"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// fields are the names of the fields with user data. Each contains a marker.
var fields = []string{
	"input", "argument", "stepresult", "record", "value", "chunk", "stepchunk", "heartbeat", "failure", "data", "panic", "stack",
	"child", "childresult", "hookmeta", "hookpayload", "message", "question", "answer", "attribute", "continued", "result",
	"pause", "resume", "cancel", "terminate", "retry", "schedule", "note", "journal", "startmessage", "bulk",
}

func mark(field string) string { return "MARK" + field + "4711" }

type declined struct{ Data string }

func (d *declined) Error() string { return mark("failure") }

func MARKstack4711() { panic(mark("panic")) }

var (
	marks   = flowtest.Flow[string, string]("marks")
	kids    = flowtest.Flow[string, string]("marks-kid")
	ending  = flowtest.Flow[string, string]("marks-failing")
	waiting = flowtest.Flow[string, string]("marks-waiting")
	charge  = flowtest.AStep[string, string]("marks-charge", shim.Policy{Retry: flowtest.Quick})
	letters = workflow.NewTopic[string]("marks.letters")
	texts   = workflow.NewStream[string]("marks.texts")
	state   = workflow.NewValue[string]("marks.state")
	token   = workflow.NewValue[string]("marks.token")
	asks    = workflow.NewAsk[string, string]("marks.ask")
	doors   = workflow.NewHook[string]("marks.door")
)

func marking() []flowtest.Binding {
	return []flowtest.Binding{
		charge.As(func(ctx context.Context, _ string) (string, error) {
			switch step.Attempt(ctx) {
			case 1:
				return "", errors.Join(step.Heartbeat(ctx, mark("heartbeat")), step.Write(ctx, texts, mark("stepchunk")), &declined{mark("data")})
			case 2:
				MARKstack4711()
			}
			return mark("stepresult"), nil
		}),
		flowtest.As(kids, func(workflow.Context, string) (string, error) { return mark("childresult"), nil }),
		flowtest.As(ending, func(workflow.Context, string) (string, error) { return "", &declined{mark("data")} }),
		flowtest.As(waiting, func(ctx workflow.Context, _ string) (string, error) { return letters.Receive(ctx) }),
		flowtest.As(marks, playMarks),
	}
}

func playMarks(ctx workflow.Context, in string) (string, error) {
	if in == mark("continued") {
		return mark("result"), nil
	}
	asks.Handle(ctx, nil, func(workflow.Context, string) (string, error) { return mark("answer"), nil })
	texts.Write(ctx, mark("chunk"))
	if _, err := workflow.Record(ctx, func() (string, error) { return mark("record"), nil }); err != nil {
		return "", err
	}
	if _, err := charge.Call(ctx, mark("argument")); err != nil {
		return "", err
	}
	if _, err := kids.Child(ctx, mark("child")); err != nil {
		return "", err
	}
	hook, err := doors.Open(ctx, workflow.Describe(workflow.HookMeta{Title: mark("hookmeta")}))
	if err != nil {
		return "", err
	}
	token.Set(ctx, hook.Token())
	state.Set(ctx, mark("value"))
	if _, err := hook.Receive(ctx); err != nil {
		return "", err
	}
	if _, err := letters.Receive(ctx); err != nil {
		return "", err
	}
	hook.Dispose(ctx)
	return "", marks.ContinueAsNew(ctx, mark("continued"))
}

// alerts keeps the alerts that it receives.
type alerts struct{ flowtest.Seen[string] }

func (a *alerts) Deliver(_ context.Context, got *alert.Alert) error {
	a.Add(got.Message)
	return nil
}

// writeMarks writes a marker into each field. It returns the messages of the delivered alerts.
func writeMarks(t *testing.T, w *flowtest.World) []string {
	t.Helper()
	got := &alerts{}
	w.Work(worker.Config{Alerts: alert.Config{
		Rules:   []alert.Rule{{Name: "marks", Conditions: []alert.Condition{alert.Failed}, Target: "list"}},
		Targets: map[string]alert.Target{"list": got},
	}}, marking()...)
	operator := ops.New(w.Client)
	secret := workflow.WithAttribute(w.Ctx, event.SecretAttribute+"card", mark("attribute"))
	run, err := marks.Start(secret, w.Client, mark("input"))
	flowtest.Order(t, err)
	key, err := token.Wait(w.Ctx, run)
	flowtest.Order(t, err)
	_, err = state.Wait(w.Ctx, run)
	flowtest.Order(t, err)
	_, err = asks.Ask(w.Ctx, run, mark("question"))
	flowtest.Order(t, err)
	flowtest.Order(t, errors.Join(
		w.Client.SendToHook(w.Ctx, key, []byte(`"`+mark("hookpayload")+`"`)),
		run.Pause(w.Ctx, workflow.Reason(mark("pause"))), run.Resume(w.Ctx, workflow.Reason(mark("resume"))),
		letters.Send(w.Ctx, run, mark("message")),
	))
	if result, err := run.Result(w.Ctx); err != nil || result != mark("result") {
		t.Fatalf("got %q and %v", result, err)
	}

	canceled, terminated := flowtest.Start(w, waiting, ""), flowtest.Start(w, waiting, "")
	flowtest.Order(t, errors.Join(canceled.Cancel(w.Ctx, mark("cancel")), operator.Terminate(w.Ctx, terminated.ID(), mark("terminate"))))
	for _, run := range []*workflow.Run[string]{canceled, terminated} {
		if _, err := run.Result(w.Ctx); err == nil {
			t.Fatal("a run that was ended has a result")
		}
	}
	failed := flowtest.Start(w, ending, "")
	if _, err := failed.Result(w.Ctx); err == nil {
		t.Fatal("a failing run has a result")
	}
	again, err := failed.Retry(w.Ctx, workflow.Reason(mark("retry")))
	flowtest.Order(t, err)
	if _, err := ending.Get(w.Client, again.ID()).Result(w.Ctx); err == nil {
		t.Fatal("a failing run has a result")
	}
	flowtest.Order(t, kids.Schedule(w.Ctx, w.Client, "marks", schedule.Spec{When: "0 0 1 1 *"}, mark("schedule")))
	tick, err := operator.Schedules().Trigger(w.Ctx, "marks")
	flowtest.Order(t, err)
	_, err = kids.Get(w.Client, tick).Result(w.Ctx)
	flowtest.Order(t, err)
	flowtest.Order(t, operator.Schedules().Pause(w.Ctx, "marks", mark("note")))
	w.Eventually("the schedule is paused", func() bool {
		s, err := operator.Schedules().Get(w.Ctx, "marks")
		return err == nil && s.Paused
	})
	_, err = operator.WriteJournal(w.Ctx, store.JournalEntry{Time: time.Now(), Principal: "ada", Face: "api", Action: "cancel", Reason: mark("journal")}, store.JournalKeep{})
	flowtest.Order(t, err)
	if result := flowtest.Result(w, flowtest.Start(w, waiting, "", workflow.WithMessage(letters, mark("startmessage")))); result != mark("startmessage") {
		t.Errorf("got %q", result)
	}
	copyMarks(t, w, run)
	w.Eventually("the alert is delivered", func() bool { return got.Len() > 0 })
	w.StopWorkers()
	return got.Get()
}

// copyMarks forks and restarts a run, and ends the new runs by a bulk action with a marker as its reason.
func copyMarks(t *testing.T, w *flowtest.World, run *workflow.Run[string]) {
	t.Helper()
	service := admin.New(w.Client)
	w.Work(worker.Config{Queues: []string{admin.AdminQueue}}, func(r workflow.Registrar) { admin.Register(r, service) })
	step := w.Reach(run, event.StepCreated, 1)
	_, err := run.Fork(w.Ctx, step.Correlation(run.ID()))
	flowtest.Order(t, err)
	_, err = run.Restart(w.Ctx)
	flowtest.Order(t, err)
	n := 2
	w.Eventually("both runs wait", func() bool {
		return len(w.List(workflow.Filter{Workflow: marks.Name(), Statuses: []workflow.Status{workflow.StatusWaiting}})) == n
	})
	bulk, err := service.AsLocal("ada").StartBulk(w.Ctx, admin.NewBulk{
		BulkRequest: admin.BulkRequest{
			Filter: admin.Filter{Workflow: marks.Name(), Statuses: []string{string(workflow.StatusWaiting)}}, Action: admin.Action{Verb: "terminate", Reason: mark("bulk")},
		}, Expect: &n,
	})
	flowtest.Order(t, err)
	w.Eventually("the bulk action has ended the runs", func() bool {
		b, err := service.Bulk(w.Ctx, bulk.ID)
		flowtest.Order(t, err)
		return b.Done == n
	})
}

// TestOPS5_TheReasonOfABlockedRunContainsNoUserData proves that the difference between a log and changed
// code is sealed, and that the text which operators read without a key names only the operation.
func TestOPS5_TheReasonOfABlockedRunContainsNoUserData(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		calls := func(argument string) []flowtest.Binding {
			return []flowtest.Binding{
				charge.As(func(_ context.Context, s string) (string, error) { return s, nil }),
				flowtest.As(waiting, func(ctx workflow.Context, _ string) (string, error) {
					if _, err := charge.Call(ctx, argument); err != nil {
						return "", err
					}
					return letters.Receive(ctx)
				}),
			}
		}
		first := w.Work(worker.Config{}, calls(mark("argument"))...)
		run := flowtest.Start(w, waiting, "")
		w.Reach(run, event.WaitCreated, 1)
		first.Stop()
		w.Work(worker.Config{}, calls(mark("data"))...)
		flowtest.Order(t, letters.Send(w.Ctx, run, ""))
		w.Status(run, workflow.StatusBlocked)
		info, err := run.Info(w.Ctx)
		flowtest.Order(t, err)
		if strings.Contains(info.Blocked, "MARK") || !flowtest.ContainsAll(info.Blocked, "test.marks-charge", "with other data") || info.Mismatch == nil || !flowtest.ContainsAll(info.Mismatch.Diff, mark("argument"), mark("data")) {
			t.Errorf("the run is blocked because of %q (%+v)", info.Blocked, info.Mismatch)
		}
		w.StopWorkers()
		if strings.Contains(w.Logs.String(), "MARK") {
			t.Error("the log contains user data")
		}
		groups, err := ops.New(w.Client).FailureGroups(w.Ctx, ops.FailureFilter{})
		if err != nil || len(groups.Groups) != 1 || !strings.Contains(groups.Groups[0].Text, "test.marks-charge") {
			t.Errorf("got groups %+v and %v", groups.Groups, err)
		}
	})
}

// finder finds markers, also in encoded and compressed data.
type finder map[string]bool

var base64Text = regexp.MustCompile(`[A-Za-z0-9+/_-]{24,}`)

func (f finder) search(data []byte, depth int) {
	for _, field := range fields {
		if bytes.Contains(data, []byte(mark(field))) {
			f[field] = true
		}
	}
	if depth == 0 || len(data) == 0 {
		return
	}
	for _, text := range base64Text.FindAll(data, -1) {
		text = []byte(urlSafe.Replace(string(text)))
		for shift := range 4 {
			part := text[shift:]
			out := make([]byte, base64.RawStdEncoding.DecodedLen(len(part)))
			n, _ := base64.RawStdEncoding.Decode(out, part[:len(part)&^3])
			f.search(out[:n], depth-1)
		}
	}
	f.inflate(data, "\x1f\x8b\x08", depth, func(b []byte) ([]byte, error) {
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	})
	f.inflate(data, "\x28\xb5\x2f\xfd", depth, func(b []byte) ([]byte, error) {
		d, err := zstd.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return io.ReadAll(d)
	})
	if bytes.Contains(data, []byte(`\u00`)) {
		f.search([]byte(unescaped.Replace(string(data))), depth-1)
	}
}

var (
	urlSafe   = strings.NewReplacer("-", "+", "_", "/")
	unescaped = strings.NewReplacer(`\u0022`, `"`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&")
)

// inflate searches what is compressed at each occurrence of the first bytes of a format.
func (f finder) inflate(data []byte, magic string, depth int, open func([]byte) ([]byte, error)) {
	for at := 0; ; at++ {
		i := bytes.Index(data[at:], []byte(magic))
		if i < 0 {
			return
		}
		at += i
		if plain, _ := open(data[at:]); len(plain) > 0 { // the data may end with an error, because other bytes follow
			f.search(plain, depth-1)
		}
	}
}

func (f finder) found() (names []string) {
	for _, field := range fields {
		if f[field] {
			names = append(names, field)
		}
	}
	return names
}

func (f finder) missing() (names []string) {
	return slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return f[field] })
}

// TestOPS5_TheFinderFindsEncodedMarkers proves that the search of the following tests can find what
// it is meant to find.
func TestOPS5_TheFinderFindsEncodedMarkers(t *testing.T) {
	plain := []byte("..." + mark("input") + "...")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write(plain)
	flowtest.Order(t, errors.Join(err, z.Close()))
	e, err := zstd.NewWriter(nil)
	flowtest.Order(t, err)
	for name, data := range map[string][]byte{
		"plain": plain, "base64": []byte(" " + base64.StdEncoding.EncodeToString(plain)), "gzip": append([]byte("x"), zipped.Bytes()...),
		"zstd": append(e.EncodeAll(plain, []byte("x")), "yz"...), "zstd in base64": []byte(base64.URLEncoding.EncodeToString(e.EncodeAll(plain, nil))),
	} {
		f := finder{}
		if f.search(data, 3); !f["input"] {
			t.Errorf("%s: not found", name)
		}
	}
}

// recorder records everything that passes a proxy.
type recorder struct {
	mu  sync.Mutex
	all map[bool]*bytes.Buffer // by direction
}

func (r *recorder) treat(answer bool, piece []byte) redistest.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[answer].Write(piece)
	return redistest.Pass
}

// files returns the contents of the files whose names begin with one of the prefixes.
func files(t *testing.T, dir string, prefixes ...string) (all []byte) {
	t.Helper()
	flowtest.Order(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(d.Name(), p) }) {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, b...)
		return err
	}))
	return all
}

// export returns a file with all runs of the store, as its documentation describes.
func export(t *testing.T, w *flowtest.World) []byte {
	t.Helper()
	var b bytes.Buffer
	to, err := archive.NewWriter(&b, archive.Head{})
	flowtest.Order(t, err)
	e := archive.NewExporter(w.Store, to, nil)
	for run, err := range w.Client.List(w.Ctx, workflow.Filter{}) {
		flowtest.Order(t, err)
		flowtest.Order(t, e.Run(w.Ctx, run.ID))
	}
	flowtest.Order(t, to.Close())
	return b.Bytes()
}

// TestOPS5_NoMarkerOfAnyFieldLeavesTheProcess proves that all fields with user data are sealed before
// they are stored, sent or logged. Without a codec the same search finds each of them.
func TestOPS5_NoMarkerOfAnyFieldLeavesTheProcess(t *testing.T) {
	places := map[string]func(t *testing.T) (st store.Store, contents func() map[string][]byte){
		"sqlite": func(t *testing.T) (store.Store, func() map[string][]byte) {
			dir := t.TempDir()
			return flowtest.OpenSQLite(t, filepath.Join(dir, "flows.db")), func() map[string][]byte {
				return map[string][]byte{"the files": files(t, dir, "flows.db")}
			}
		},
		"redis": func(t *testing.T) (store.Store, func() map[string][]byte) {
			dir := t.TempDir()
			server := redistest.Start(t, "--appendonly", "yes", "--dir", dir)
			proxy, tape := redistest.NewProxy(t, server.Addr), &recorder{all: map[bool]*bytes.Buffer{false: {}, true: {}}}
			proxy.Do(tape.treat)
			st, err := redisstore.New((&redistest.Server{Addr: proxy.Addr}).Client(t), redisstore.Config{})
			flowtest.Order(t, err)
			return st, func() map[string][]byte {
				flowtest.Order(t, server.Client(t).Save(t.Context()).Err())
				tape.mu.Lock()
				defer tape.mu.Unlock()
				return map[string][]byte{
					"the dump": files(t, dir, "dump.rdb"), "the append-only file": files(t, dir, "appendonly.aof"),
					"the traffic": bytes.Clone(tape.all[false].Bytes()), "the answers": bytes.Clone(tape.all[true].Bytes()),
				}
			}
		},
	}
	for name, open := range places {
		for _, with := range []bool{true, false} {
			title := map[bool]string{true: "sealed", false: "open"}[with]
			t.Run(name+"/"+title, func(t *testing.T) {
				st, contents := open(t)
				flowtest.Order(t, flag.Set("codec", strconv.FormatBool(with)))
				defer flag.Set("codec", "true")
				w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
				messages := writeMarks(t, w)
				all := contents()
				all["an export"], all["the logs"], all["the alerts"] = export(t, w), []byte(w.Logs.String()), []byte(strings.Join(messages, "\n"))
				anywhere := finder{}
				for place, data := range all {
					f := finder{}
					f.search(data, 3)
					if with && len(f) > 0 {
						t.Errorf("%s: %s of %d bytes contains %v", name, place, len(data), f.found())
					}
					if !with && len(f) == 0 {
						t.Errorf("%s: nothing is found in %s: the search proves nothing", name, place)
					}
					for field := range f {
						anywhere[field] = true
					}
				}
				if !with && len(anywhere.missing()) > 0 {
					t.Errorf("%s: %v are found nowhere: the search proves nothing for them", name, anywhere.missing())
				}
			})
		}
	}
}
