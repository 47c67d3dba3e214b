package console_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/sqlitestore"
)

func TestOPS2_ListsFiltersAndCounts(t *testing.T) {
	s := newSite(t, console.Config{Store: "orders@redis"})
	has(t, s.get("runs", 200), "No runs yet", "orders@redis")
	failed, good := s.Ended("bad", "order-1"), s.Ended("good", "order-2")
	list := s.get("runs", 200)
	has(t, list, failed, good, "order-1", "order-2", admintest.Workflow)
	list = s.get("runs?q="+url.QueryEscape("status:failed"), 200)
	has(t, list, failed, "<b>1</b>", "flowctl runs --status failed")
	hasNot(t, list, good)
	has(t, s.get("runs?q=order-2", 200), good)
	has(t, s.get("runs?q=status:odd", 400), "there is no status")
	has(t, s.get("runs?q=colour:red", 400), "a filter has no", "use status")
	has(t, s.get("runs?q="+url.QueryEscape("workflow:no.such"), 200), "No run matches")
	has(t, s.get("runs?q="+good, 200), "completed", "Timeline") // a search for an ID redirects to its run
	has(t, s.get("failures", 200), "the carrier is closed")
	for _, page := range []string{"queues", "workers", "start"} {
		has(t, s.get(page, 200), "<h1>")
	}
	has(t, s.get("no/such/page", 404), "there is no such page")
}

func TestOPS2_ARunSaysWhyItFailedAndWhatItDid(t *testing.T) {
	s := newSite(t, console.Config{})
	run := s.Ended("bad", "order-1")
	page := s.get("runs/"+run, 200)
	has(t, page, "the carrier is closed", "admintest.label", "/act/retry?run="+run, "class=\"b failed\"")
	hasNot(t, page, "/act/pause?") // the run has ended, so it cannot be paused
	op := regexp.MustCompile(`\?op=\d+`).FindString(page)
	has(t, s.get("runs/"+run+op, 200), "Arguments", "Fork from here")
	has(t, s.get("runs/"+run+"/events", 200), "step failed", "run created")
	has(t, s.get("runs/"+run+"/data", 200), "what", "bad")
	has(t, s.get("runs/"+run+"/tree", 200), run)
	has(t, s.get("runs/"+run+"/event/1", 200), "#1 run created")
	s.get("runs/"+run+"/event/99", 404)
	s.get("runs/wrun_01ARZ3NDEKTSV4RRFFQ69G5FAV", 404)
	s.get("runs/order-1", 400)
}

// TestOPS2_AFormThatIsSentTwiceActsOnce proves that a form that is submitted twice is executed
// once.
func TestOPS2_AFormThatIsSentTwiceActsOnce(t *testing.T) {
	s := newSite(t, console.Config{})
	run := s.Ended("good", "")
	page := s.get("act/restart?run="+run, 200)
	key := regexp.MustCompile(`name="key" value="([^"]+)"`).FindStringSubmatch(page)
	if key == nil {
		t.Fatalf("the form has no key\n%s", page)
	}
	has(t, page, "flowctl restart "+run, "A new run begins from the start")
	form := url.Values{"run": {run}, "key": {key[1]}}
	has(t, s.post("act/restart", form, 200), "This is the new run")
	s.post("act/restart", form, 200)
	got, err := s.Direct.Runs(s.Context(), admin.Filter{})
	if err != nil || len(got.Runs) != 2 {
		t.Errorf("there are %d runs (%v), want 2", len(got.Runs), err)
	}
	form.Set("key", "another")
	s.post("act/restart", form, 200)
	if got, err = s.Direct.Runs(s.Context(), admin.Filter{}); err != nil || len(got.Runs) != 3 {
		t.Errorf("there are %d runs (%v), want 3", len(got.Runs), err)
	}
}

// TestOPS2_AFormThatTwoConsolesGetMakesOneRun proves that a form creates one run even if two
// processes receive it. The second process receives the form after the run that the first process
// created has failed.
func TestOPS2_AFormThatTwoConsolesGetMakesOneRun(t *testing.T) {
	first := newSite(t, console.Config{})
	second := newSiteOver(t, first.Scene, console.Config{})
	for i, verb := range []string{"restart", "retry"} {
		run := first.Ended("bad", "")
		form := url.Values{"run": {run}, "key": {"key of " + verb}}
		for _, s := range []*site{first, second} {
			s.post("act/"+verb, form, 200)
			page, err := s.Direct.Runs(s.Context(), admin.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Runs {
				if _, err := s.Direct.Wait(s.Context(), r.ID, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			if want := 2 * (i + 1); len(page.Runs) != want {
				t.Errorf("%s: there are %d runs, want %d", verb, len(page.Runs), want)
			}
		}
	}
}

func TestOPS2_ActsOnSeveralAndSaysWhichWereRefused(t *testing.T) {
	s := newSite(t, console.Config{})
	open, ended := s.Start("wait", ""), s.Ended("good", "")
	s.Until(open, "waiting")
	has(t, s.get("act/cancel?run="+open+"&run="+ended, 200), "Cancel 1 of 2 runs", "it is completed")
	text := s.post("act/cancel", url.Values{"run": {open, ended}, "reason": {"ordered twice"}}, 207)
	has(t, text, "done", ended)
	s.Until(open, "cancelled")
	s.post("act/cancel", url.Values{"run": {ended}}, 409)
	s.post("act/cancel", url.Values{}, 400)
	s.post("act/explode", url.Values{"run": {open}}, 404)
}

func TestOPS2_StartsARunAndKeepsWhatWasTyped(t *testing.T) {
	s := newSite(t, console.Config{})
	text := s.post("start", url.Values{"workflow": {admintest.Workflow}, "input": {`{"what":`}, "id": {"order-9"}}, 400)
	has(t, text, "the input is not JSON", `value="order-9"`)
	has(t, s.post("start", url.Values{"workflow": {admintest.Workflow}, "input": {`{"what":"good"}`}, "id": {"order-9"}, "tags": {"region=eu"}}, 200), "order-9", "region")
}

// TestOPS2_HostileNamesAndPayloadsAreText proves that names and payloads are shown as text, and
// that invisible characters are made visible.
func TestOPS2_HostileNamesAndPayloadsAreText(t *testing.T) {
	s := newSite(t, console.Config{})
	id := "<script>alert(1)</script>\u202e\"'`{{.}}"
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for i, input := range []string{
		`{"what":"<img src=x onerror=alert(1)>\u202e\u0000\u001b[31m"}`, `{"what":"` + strings.Repeat("x", 1<<20) + `"}`, `{"what":"x","deep":` + deep + `}`,
	} {
		got, err := s.Direct.Start(s.Context(), admin.Start{Workflow: "no.schema", Input: admin.Payload(input), ID: fmt.Sprint(id, i), Hold: true, Tags: map[string]string{"<b>": "</dd><script>"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range []string{"runs", "runs/" + got.Run, "runs/" + got.Run + "/events", "runs/" + got.Run + "/data", "runs/" + got.Run + "/event/1", "runs/" + got.Run + "/tree", "act/cancel?run=" + got.Run} {
			text := s.get(page, 200)
			hasNot(t, text, "<script>", "<img", "\u202e", "\x1b", "\x00")
			if len(text) > 120_000 {
				t.Errorf("%s has %d bytes", page, len(text))
			}
		}
	}
	has(t, s.get("runs", 200), `&lt;script&gt;`, `\u202e`)
}

func TestOPS2_StrangersAndOtherOriginsAreRefused(t *testing.T) {
	s := newSite(t, console.Config{})
	ask := func(method, path string, change func(r *http.Request)) int {
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader("run=x"))
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		status, _, _ := s.do(r)
		return status
	}
	for name, change := range map[string]func(r *http.Request){
		"another host": func(r *http.Request) { r.Host = "flows.example.com" },
		"forwarded":    func(r *http.Request) { r.Header.Set("X-Forwarded-For", "10.0.0.7") },
	} {
		if status := ask("GET", "runs", change); status != 403 {
			t.Errorf("%s: status %d, want 403", name, status)
		}
	}
	if status := ask("POST", "act/cancel", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); status != 403 {
		t.Errorf("a page of another origin: status %d, want 403", status)
	}
}

// TestOPS2_RolesDecideWhatIsShownAndOffered proves that the console applies the rights of the
// principal. For a viewer, pages contain neither payloads nor actions.
func TestOPS2_RolesDecideWhatIsShownAndOffered(t *testing.T) {
	entry, secret := admin.NewToken(admin.Token{Name: "ada", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)})
	tokens, err := admin.NewTokens([]admin.Token{entry}, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := httpauth.NewSession(tokens, httpauth.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, console.Config{Session: session})
	run := s.Ended("bad", "order-1")
	has(t, s.get("runs", 200), "Log in")
	has(t, s.post("login", url.Values{"token": {"wrong"}}, 401), "Log in")
	has(t, s.post("login", url.Values{"token": {secret}}, 200), "ada", "order-1")
	page := s.get("runs/"+run, 200)
	has(t, page, "the carrier is closed", "viewer")
	hasNot(t, page, "/act/")
	hasNot(t, s.get("runs/"+run+"/events", 200), "&#34;what&#34;")
	s.get("runs/"+run+"/payload/1", 403)
	s.post("act/retry", url.Values{"run": {run}}, 403)
	has(t, s.post("logout", nil, 200), "Log in")
	has(t, s.get("runs/"+run, 200), "Log in")
}

func TestOPS2_UpdatesComeWhileSomebodyLooks(t *testing.T) {
	s := newSite(t, console.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"live?page="+url.QueryEscape("/runs?q="), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	run := s.Start("wait", "order-live")
	var got bytes.Buffer
	b := make([]byte, 32<<10)
	for !strings.Contains(got.String(), run) {
		n, err := answer.Body.Read(b)
		got.Write(b[:n])
		if err != nil {
			t.Fatalf("the stream ended with %v before the run was in it", err)
		}
	}
	hasNot(t, got.String(), "<!doctype")
}

func TestOPS2_AssetsAreSmallAndKept(t *testing.T) {
	var short bytes.Buffer
	z := gzip.NewWriter(&short)
	for _, name := range []string{"assets/console.css", "assets/console.js"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 28<<10 {
			t.Errorf("%s has %d bytes, want at most 28 KB", name, len(b))
		}
		_, _ = z.Write(b)
	}
	_ = z.Close()
	if short.Len() > 20<<10 {
		t.Errorf("styles and scripts have %d bytes compressed, want at most 20 KB", short.Len())
	}
	s := newSite(t, console.Config{})
	at := regexp.MustCompile(`/flows/(assets/console-[0-9a-f]{12}\.css)`).FindStringSubmatch(s.get("runs", 200))
	if at == nil {
		t.Fatal("the page names no styles")
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+at[1], nil)
	if status, _, header := s.do(r); status != 200 || !strings.Contains(header.Get("Cache-Control"), "immutable") || !strings.HasPrefix(header.Get("Content-Type"), "text/css") {
		t.Errorf("the styles: status %d, header %v", status, header)
	}
}

func TestOPS2_TheJournalShowsWhoAskedForWhat(t *testing.T) {
	s := newSite(t, console.Config{})
	has(t, s.get("journal", 200), "Nothing was asked for")
	run := s.Start("wait", "order-1")
	s.Until(run, "waiting")
	s.post("act/cancel", url.Values{"run": {run}, "reason": {"ordered twice <b>"}}, 200)
	s.Until(run, "cancelled")
	s.post("act/retry", url.Values{"run": {run}}, 409)
	page := s.get("journal", 200)
	has(t, page, "ordered twice &lt;b&gt;", run, "local", "console", "refused", "cancel")
	hasNot(t, s.get("journal?action=retry", 200), "ordered twice")
	has(t, s.get("journal?outcome=refused&principal=local&since=24h", 200), "flowctl journal --principal local --outcome refused --since 24h")
	hasNot(t, s.get("journal?target="+run, 200), "Nothing was asked for")
	has(t, s.get("journal?since=yesterday", 400), "yesterday")
	s.get("journal?cursor=no", 400)
}

func TestOPS2_ChecksSayWhatIsWrongAndRepairIt(t *testing.T) {
	memory := newSite(t, console.Config{})
	has(t, memory.get("checks", 200), "has no doctor", "Check the store", "flowctl doctor")
	has(t, memory.get("checks/plan", 501), "can be neither checked nor repaired")

	st, err := sqlitestore.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSiteOn(t, st, console.Config{})
	run := s.Ended("good", "order-1")
	has(t, s.get("checks/plan", 200), "Nothing is wrong")
	s.Damage(run)
	page := s.get("checks/plan", 200)
	has(t, page, run, "planned", "Type 1 to make this repair", "flowctl fsck --repair")
	form := hiddenOf(page)
	form.Set("count", "2")
	has(t, s.post("checks/repair", form, 400), "which is not the number of planned repairs", "planned")
	form.Set("count", "1")
	has(t, s.post("checks/repair", form, 200), run, "repaired")
	has(t, s.get("checks/plan", 200), "Nothing is wrong")
	has(t, s.get("journal?action=repair", 200), "1 repairs, 0 findings left")
}

func TestOPS2_AuditShowsWhatOperatorsDidWithARun(t *testing.T) {
	s := newSite(t, console.Config{})
	run, other := s.Start("wait", "order-1"), s.Start("wait", "order-2")
	has(t, s.get("runs/"+run+"/audit", 200), "no action was taken", "run created")
	s.post("act/cancel", url.Values{"run": {run}, "reason": {"ordered twice"}}, 200)
	s.post("act/cancel", url.Values{"run": {other}, "reason": {"of the other one"}}, 200)
	s.Until(run, "cancelled")
	page := s.get("runs/"+run+"/audit", 200)
	has(t, page, "ordered twice", "cancel requested", "local", "console")
	hasNot(t, page, "of the other one")
}

func TestOPS2_ABlockedRunShowsItsLogBesideItsCode(t *testing.T) {
	s := newSite(t, console.Config{})
	run := s.Blocked("order-1")
	page := s.get("runs/"+run, 200)
	has(t, page, "The log has", "The code asks for", "step_created admintest.label", "<del>-", "<ins>&#43;", "a new old", "blocked.go:", "/flows/runs/"+run+"/event/", "continues by itself once a worker with matching code serves it")
	has(t, s.get("runs?q=status:blocked", 200), run)
	has(t, s.get("failures", 200), "blocked", "log: step_created admintest.label")
}

// TestOPS2_ListsAndRunsSayInWordsWhatIsTheMatter proves that a list shows the failures of its runs
// and reads each failure group once, and that a waiting run shows the reason why it waits.
func TestOPS2_ListsAndRunsSayInWordsWhatIsTheMatter(t *testing.T) {
	s := newSite(t, console.Config{})
	s.Ended("bad", "order-1")
	s.Ended("bad", "order-2")
	s.Blocked("order-3")
	list := s.get("runs", 200)
	for text, want := range map[string]int{">admintest.label: the carrier is closed</a>": 2, ">log: step_created admintest.label, code: the same with other data</a>": 1} {
		if got := strings.Count(list, text); got != want {
			t.Errorf("%q is there %d times, want %d\n%s", text, got, want, mainOf(list))
		}
	}
	for what, want := range map[string]string{"wait": "Waits for a message of verdict", "hook": "hook visitors/β", "family": "Waits for a run of admintest.order"} {
		run := s.Start(what, "")
		s.Until(run, "waiting")
		has(t, s.get("runs/"+run, 200), want, "data-took")
	}
	paused := s.Start("wait", "order-5")
	s.Until(paused, "waiting")
	s.post("act/pause", url.Values{"run": {paused}, "reason": {"until <Monday>"}}, 200)
	s.Until(paused, "paused")
	has(t, s.get("runs/"+paused, 200), "</svg>Paused</h2>", "until &lt;Monday&gt;", "Resume continues it", "data-took>")
	run := s.Ended("bad", "order-4")
	if page := s.get("runs/"+run+"/events", 200); strings.Count(page, `<td class="w mono">order/admintest.label#1</td>`) != 3 {
		t.Errorf("the events of a step do not all say so\n%s", mainOf(page))
	}
}

// TestOPS2_EachActionAsksWhy proves that each action asks for a reason and that the journal records
// the reason, even if the log does not.
func TestOPS2_EachActionAsksWhy(t *testing.T) {
	s := newSite(t, console.Config{})
	run := s.Ended("bad", "order-1")
	s.Ended("good", "order-2")
	nightly := "schedules/nightly"
	_, err := s.Direct.PutSchedule(t.Context(), admin.NewSchedule{Name: "nightly", Workflow: admintest.Workflow, Input: admintest.Input("good"), Timing: admin.Timing{When: "30 2 * * *"}})
	if err != nil {
		t.Fatal(err)
	}
	pool := "pools/" + url.PathEscape(s.Visit("ada"))
	for path, form := range map[string]url.Values{
		"act/retry": {"run": {run}}, nightly + "/trigger": {}, nightly + "/pause": {}, pool + "/pause?key=ada": {}, pool + "/set?key=ada": {"atOnce": {"2"}},
	} {
		ask := path
		if path == "act/retry" {
			ask += "?run=" + run
		}
		has(t, s.get(ask, 200), "Why? The reason", `name="reason"`, `data-flag="reason"`, "the journal")
		form.Set("reason", "because of "+path)
		s.post(path, form, 200)
	}
	// The filter selects only one ID, because the run that the trigger of the schedule started may
	// end between the preview and the start.
	page := s.get("bulk/new?q=status:completed+id:order-2&verb=restart&reason=because+of+bulk", 200)
	has(t, page, whyInJournal, "--reason &#39;because of bulk&#39;")
	form := hiddenOf(page)
	form.Set("count", form.Get("expect"))
	s.post("bulk/new", form, 200)
	journal := s.get("journal", 200)
	has(t, journal, "because of act/retry", "because of schedules/nightly/trigger", "because of schedules/nightly/pause", "because of "+html.EscapeString(pool)+"/pause", "because of "+html.EscapeString(pool)+"/set", "because of bulk")
}

const whyInJournal = "Why? The reason is stored in the journal."

// TestOPS2_AStartHasItsDelayItsTagsAndItsPolicy proves that the options of a start are applied, and
// that the form of a refused start keeps its input.
func TestOPS2_AStartHasItsDelayItsTagsAndItsPolicy(t *testing.T) {
	s := newSite(t, console.Config{})
	form := func(pairs ...string) url.Values {
		f := url.Values{"workflow": {admintest.Workflow}, "input": {`{"what":"good"}`}}
		for i := 0; i < len(pairs); i += 2 {
			f.Set(pairs[i], pairs[i+1])
		}
		return f
	}
	for _, wrong := range [][]string{{"delay", "-1"}, {"delay", "soon"}, {"tags", "=eu"}, {"tags", "region"}} {
		has(t, s.post("start", form(wrong...), 400), "The request is invalid", html.EscapeString(wrong[1]))
	}
	s.post("start", form("delay", "3600.5", "tags", `region=eu note="a b"`), 200)
	page, err := s.Direct.Runs(t.Context(), admin.Filter{Tags: map[string]string{"region": "eu", "note": "a b"}})
	if err != nil || len(page.Runs) != 1 {
		t.Fatalf("with these tags there are %+v, %v", page.Runs, err)
	}
	if r := page.Runs[0]; r.Due.Sub(r.CreatedAt) < 3600*time.Second || r.Due.Sub(r.CreatedAt) > 3610*time.Second {
		t.Errorf("it begins %v after it was created, want about 3600.5 s", r.Due.Sub(r.CreatedAt))
	}
	s.Start("wait", "order-1")
	s.post("start", form("id", "order-1", "policy", "fail"), 409)
	s.post("start", form("policy", "fail"), 200) // a policy requires an ID
	hasNot(t, s.get("start", 200), "flowgen.bulk", "flowgen.schedule")
}
