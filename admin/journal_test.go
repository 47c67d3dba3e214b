package admin_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// entries returns the journal entries of a service, the newest first.
func entries(t *testing.T, s *admin.Service) []admin.JournalEntry {
	t.Helper()
	page, err := s.Journal(t.Context(), admin.JournalFilter{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Entries
}

// reads lists the methods that change nothing but whose refusal is recorded.
var reads = []string{"Value", "Stream", "FollowStream", "Journal", "Preview", "Examine", "Check", "Export"}

// views lists the methods that are not operations: As and AsLocal return a service, and Refused
// records the refusal of a handler.
var views = []string{"As", "AsLocal", "Refused"}

// call calls an operation with zero values. It returns the operation's error, or the first error of
// its iterator.
func call(t *testing.T, s *admin.Service, name string) error {
	t.Helper()
	m := reflect.ValueOf(s).MethodByName(name)
	args := []reflect.Value{reflect.ValueOf(t.Context())}
	for i := 1; i < m.Type().NumIn(); i++ {
		args = append(args, reflect.Zero(m.Type().In(i)))
	}
	out := m.Call(args)
	last := out[len(out)-1]
	if last.Kind() == reflect.Func {
		for _, last = range last.Seq2() {
			break
		}
	}
	err, _ := reflect.TypeAssert[error](last)
	return err
}

// operations returns the names of all operations of a service.
func operations() (all []string) {
	for m := range reflect.TypeFor[*admin.Service]().Methods() {
		if !slices.Contains(views, m.Name) {
			all = append(all, m.Name)
		}
	}
	return all
}

// TestOPS3_NoOperationIsOpenToAPrincipalWithoutARole proves that each operation of a service checks
// the rights of its principal.
func TestOPS3_NoOperationIsOpenToAPrincipalWithoutARole(t *testing.T) {
	e := newEstate(t)
	nobody := e.direct.As(admin.Principal{Name: "eve"})
	all := operations()
	if len(all) < 40 {
		t.Errorf("%d operations: too few to be all", len(all))
	}
	for _, name := range all {
		if err := call(t, nobody, name); !errors.As(err, new(*admin.NotAllowedError)) {
			t.Errorf("%s without a role: got %v, want that it is not allowed", name, err)
		}
	}
}

// TestOPS3_WhateverChangesSomethingIsInTheJournal proves that each method of a Service writes the
// journal, unless it is listed as a method that only reads.
func TestOPS3_WhateverChangesSomethingIsInTheJournal(t *testing.T) {
	e := newEstate(t)
	viewer := e.direct.As(admin.Principal{Name: "eve", Role: admin.RoleViewer, Face: admin.FaceAPI})
	changing := 0
	for _, name := range operations() {
		before := len(entries(t, e.direct))
		err := call(t, viewer, name)
		if !errors.As(err, new(*admin.NotAllowedError)) || slices.Contains(reads, name) {
			if got := len(entries(t, e.direct)); got != before {
				t.Errorf("%s reads, and writes the journal", name)
			}
			continue
		}
		changing++
		all := entries(t, e.direct)
		if len(all) != before+1 {
			t.Errorf("%s is refused (%v), and the journal has %d entries more, want 1", name, err, len(all)-before)
			continue
		}
		if got := all[0]; got.Principal != "eve" || got.Face != admin.FaceAPI || got.Outcome != admin.CodeForbidden {
			t.Errorf("%s: the journal has %+v", name, got)
		}
	}
	if changing < 7 {
		t.Errorf("%d methods change something: that is too few to say something", changing)
	}
}

func TestOPS3_TheJournalSaysWhatHasComeOfIt(t *testing.T) {
	e := newEstate(t)
	ctx := t.Context()
	ada := e.direct.As(admin.Principal{Name: "ada", Role: admin.RoleOperator, Face: admin.FaceConsole})
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	_, err := ada.Act(ctx, "id:of-bob", admin.Action{Verb: "pause", Reason: "to look at it", Key: "p"})
	check("pause", err)
	started, err := ada.Start(ctx, admin.Start{Workflow: "orders.fulfil", ID: "new"})
	check("start", err)
	_, err = ada.Start(ctx, admin.Start{Workflow: "orders.fulfil", ID: "new"})
	check("start again", err)
	_, err = ada.Send(ctx, e.bob, "items", admin.Message{Payload: admin.Payload(`"secret"`), Key: "m"})
	check("send", err)
	if _, err := ada.Act(ctx, e.bob, admin.Action{Verb: "delete"}); err == nil {
		t.Error("an operator has deleted a run")
	}
	if _, err := ada.Act(ctx, "id:nobody", admin.Action{Verb: "cancel"}); err == nil {
		t.Error("a run that does not exist was cancelled")
	}
	if _, err := ada.Act(ctx, e.bob, admin.Action{Verb: "dance"}); err == nil {
		t.Error("a run has danced")
	}
	if _, err := ada.ActOnPool(ctx, "gpu", admin.PoolAction{Verb: "set", Key: "k", Config: &admin.PoolConfig{AtOnce: 3}}); err == nil {
		t.Error("a limit that nobody has was set")
	}
	cli := e.direct.AsLocal("root@host")
	_, err = cli.Act(ctx, e.bob, admin.Action{Verb: "terminate"})
	check("terminate", err)
	got := entries(t, e.direct)
	slices.Reverse(got)
	want := []admin.JournalEntry{
		{Principal: "ada", Face: "console", Action: "pause", Target: "id:of-bob", Run: e.bob, Reason: "to look at it", Key: "p", Outcome: "ok"},
		{Principal: "ada", Face: "console", Action: "start", Target: "id:new", Run: started.Run, New: started.Run, Detail: "orders.fulfil", Outcome: "ok"},
		{Principal: "ada", Face: "console", Action: "start", Target: "id:new", Run: started.Run, Detail: "orders.fulfil", Outcome: "ok"},
		{Principal: "ada", Face: "console", Action: "send", Target: e.bob, Run: e.bob, Detail: "items", Key: "m", Outcome: "ok"},
		{Principal: "ada", Face: "console", Action: "delete", Target: e.bob, Outcome: "forbidden"},
		{Principal: "ada", Face: "console", Action: "cancel", Target: "id:nobody", Outcome: "notFound"},
		{Principal: "ada", Face: "console", Action: "dance", Target: e.bob, Outcome: "input"},
		{Principal: "ada", Face: "console", Action: "set", Target: "pool:gpu", Detail: `k{"atOnce":3}`, Outcome: "notFound"},
		{Principal: "root@host", Face: "cli", Action: "terminate", Target: e.bob, Run: e.bob, Outcome: "ok"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(admin.JournalEntry{}, "ID", "Time")); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func TestOPS3_OwnersReadTheEntriesOfTheirOwner(t *testing.T) {
	e := newEstate(t)
	as := func(name string, role admin.Role, owner string) *admin.Service {
		return e.direct.As(admin.Principal{Name: name, Role: role, Owner: owner})
	}
	ada, other := as("ada", admin.RoleOperator, "ada"), as("ada", admin.RoleOperator, "bob") // two principals with the same name and different owners
	colleague := as("carl", admin.RoleOperator, "ada")
	for run, s := range map[string]*admin.Service{e.ada: ada, e.bob: other} {
		if _, err := s.Act(t.Context(), run, admin.Action{Verb: "pause"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := colleague.Act(t.Context(), e.ada, admin.Action{Verb: "resume"}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		f    admin.JournalFilter
		want []string
	}{{admin.JournalFilter{}, []string{"resume", "pause"}}, {admin.JournalFilter{Principals: []string{"ada"}}, []string{"pause"}}, {admin.JournalFilter{Principals: []string{"bob"}}, nil}} {
		page, err := ada.Journal(t.Context(), tt.f)
		var got []string
		for _, e := range page.Entries {
			if got = append(got, e.Action); e.Owner != "ada" {
				t.Errorf("%+v: got an entry of owner %q", tt.f, e.Owner)
			}
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v, entries (-want +got):\n%s", tt.f, err, diff)
		}
	}
	if all := entries(t, as("root", admin.RoleOperator, "")); len(all) != 3 {
		t.Errorf("an operator reads %+v, want 3 entries", all)
	}
	if p := admin.ProblemOf(second(as("eve", admin.RolePayloads, "").Journal(t.Context(), admin.JournalFilter{}))); p == nil || p.Code != admin.CodeForbidden {
		t.Errorf("a role that only sees: got %v, want forbidden", p)
	}
}

// TestOPS3_RefusedRequestsDoNotFlushTheJournal proves that a principal without rights cannot
// displace the entries of a journal by repeated requests, although a journal drops its oldest
// entries.
func TestOPS3_RefusedRequestsDoNotFlushTheJournal(t *testing.T) {
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	d := admin.New(client, admin.KeepJournal(100, 0))
	as := func(name string, role admin.Role) *admin.Service {
		return d.As(admin.Principal{Name: name, Role: role, Face: admin.FaceAPI})
	}
	if _, err := as("ada", admin.RoleOperator).Start(t.Context(), admin.Start{Workflow: "orders.fulfil", ID: "of-ada"}); err != nil {
		t.Fatal(err)
	}
	eve := as("eve", admin.RoleViewer)
	for n := range 500 {
		var err error
		if n%2 == 0 {
			_, err = eve.Start(t.Context(), admin.Start{Workflow: "orders.fulfil"})
		} else {
			err = &admin.NotAllowedError{What: "a route of the API", Fix: "none"}
			eve.Refused(t.Context(), "cancel", "id:of-ada", err)
		}
		if p := admin.ProblemOf(err); p == nil || p.Code != admin.CodeForbidden {
			t.Fatalf("got %v, want it refused", err)
		}
	}
	all := entries(t, d)
	if len(all) != 22 {
		t.Errorf("the journal has %d entries, want one of ada, the first 20 refusals, and one that counts the others", len(all))
	}
	if first := all[len(all)-1]; first.Principal != "ada" || first.Action != "start" {
		t.Errorf("the first entry is %+v, want that of ada", first)
	}
	if last := all[0]; last.Principal != "eve" || last.Action != "refused" || last.Outcome != admin.CodeForbidden || !strings.HasPrefix(last.Detail, "256 requests or more") {
		t.Errorf("the last entry is %+v, want one that counts the refusals of eve", last)
	}
}

// failing is a store whose journal accepts a number of writes and then fails.
type failing struct {
	store.Store
	left int
	why  error
}

func (f *failing) Unwrap() store.Store { return f.Store }

func (f *failing) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	if f.left--; f.left < 0 {
		return f.why
	}
	e, _ := store.As[store.Entries](f.Store)
	return e.WriteEntry(ctx, w)
}

func (f *failing) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	e, _ := store.As[store.Entries](f.Store)
	return e.Entries(ctx, q)
}

// TestOPS3_NothingIsDoneWithoutItsEntry proves that an action is not executed without an entry in
// the journal. If only the second write fails, the action returns its result, and the entry
// remains.
func TestOPS3_NothingIsDoneWithoutItsEntry(t *testing.T) {
	for _, tt := range []struct {
		left    int
		done    bool
		outcome []string
	}{{0, false, nil}, {1, true, []string{"unknown"}}, {2, true, []string{"ok"}}} {
		st := &failing{Store: memstore.New(), left: tt.left, why: errors.New("the disk is full")}
		client := workflow.NewClient(st, workflow.ClientConfig{})
		direct := admin.New(client)
		_, err := direct.As(admin.Principal{Name: "ada", Role: admin.RoleOperator}).Start(t.Context(), admin.Start{Workflow: "w", ID: "one"})
		if done := err == nil; done != tt.done || !done && (!errors.Is(err, st.why) || !strings.Contains(err.Error(), "nothing was done")) {
			t.Errorf("after %d entries: got %v, want done %v", tt.left, err, tt.done)
		}
		if _, err := direct.Run(t.Context(), "id:one"); (err == nil) != tt.done {
			t.Errorf("after %d entries: the run is there: %v, want %v", tt.left, err == nil, tt.done)
		}
		var outcomes []string
		for _, e := range entries(t, direct) {
			outcomes = append(outcomes, e.Outcome)
		}
		if diff := cmp.Diff(tt.outcome, outcomes); diff != "" {
			t.Errorf("after %d entries: outcomes (-want +got):\n%s", tt.left, diff)
		}
		if err := errors.Join(client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestOPS3_TheOutcomeIsWrittenWithoutItsCaller proves that the outcome is written even if the
// caller has disconnected.
func TestOPS3_TheOutcomeIsWrittenWithoutItsCaller(t *testing.T) {
	e := newEstate(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := e.direct.As(admin.Principal{Name: "ada", Role: admin.RoleOperator})
	if err := s.Recorded(ctx, "repair", "all", "", func() error { cancel(); return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if all := entries(t, e.direct); len(all) != 1 || all[0].Outcome != admin.CodeInterrupted || all[0].Action != "repair" || all[0].Detail != "all" {
		t.Errorf("the journal has %+v", all)
	}
	cancelled := errors.New("it was done")
	if err := s.Recorded(ctx, "repair", "", "", func() error { return cancelled }); errors.Is(err, cancelled) {
		t.Error("something was done for somebody who had gone before its entry was written")
	}
}

// without is a store without a journal.
type without struct{ store.Store }

func TestOPS3_AStoreWithoutAJournalWorks(t *testing.T) {
	st := without{memstore.New()}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() {
		if err := errors.Join(client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}()
	s := admin.New(client).As(admin.Principal{Name: "ada", Role: admin.RoleOperator})
	started, err := s.Start(t.Context(), admin.Start{Workflow: "w"})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{ // reasons are refused because they would be lost
		"restart": second(s.Act(t.Context(), started.Run, admin.Action{Verb: "restart", Reason: "why"})),
		"trigger": second(s.ActOnSchedule(t.Context(), "nobody", admin.ScheduleAction{Verb: "trigger", Reason: "why"})),
		"reset":   second(s.ActOnPool(t.Context(), "nobody", admin.PoolAction{Verb: "reset", Reason: "why"})),
	} {
		if p := admin.ProblemOf(err); p == nil || p.Code != admin.CodeInput {
			t.Errorf("a reason of %s: got %v, want that it is refused", what, err)
		}
	}
	if p := admin.ProblemOf(second(s.Journal(t.Context(), admin.JournalFilter{}))); p == nil || p.Code != admin.CodeUnsupported {
		t.Errorf("the journal: got %v, want unsupported", p)
	}
}

func TestOPS3_TheJournalIsLimited(t *testing.T) {
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() {
		if err := errors.Join(client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}()
	direct := admin.New(client, admin.KeepJournal(2, 0))
	s := direct.As(admin.Principal{Name: "ada", Role: admin.RoleOperator})
	for _, w := range []string{"a", "b", "c"} {
		if _, err := s.Start(t.Context(), admin.Start{Workflow: w}); err != nil {
			t.Fatal(err)
		}
	}
	if all := entries(t, direct); len(all) != 2 {
		t.Errorf("the journal has %+v, want 2 entries", all)
	}
}
