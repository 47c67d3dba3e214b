package console_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestOPS2_SchedulesAreShownAndControlled(t *testing.T) {
	s := newSite(t, console.Config{})
	const name = "nightly/β <b>"
	at := "schedules/" + url.PathEscape(name)
	_, err := s.Direct.PutSchedule(t.Context(), admin.NewSchedule{Name: name, Workflow: admintest.Workflow, Input: admintest.Input("good"), Timing: admin.Timing{When: "30 2 * * * Europe/Zurich"}})
	if err != nil {
		t.Fatal(err)
	}
	until := func(what, path string, want ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ctx.Err() == nil {
			text := s.get(path, 200)
			missing := false
			for _, w := range want {
				missing = missing || !strings.Contains(text, w)
			}
			if !missing {
				return
			}
			select { // waits until a worker has executed the request
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
		t.Fatalf("%s: %v is not on the page %s", what, want, path)
	}
	until("made", at, "nightly/β &lt;b&gt;", "30 2 * * * Europe/Zurich", "<h2>Next</h2><table>", "/pause", "/trigger", "/backfill", "/delete")
	has(t, s.get("schedules", 200), "/flows/"+at)
	page := s.get(at+"/pause", 200)
	has(t, page, "Its ticks are skipped from now on", "flowctl schedules pause &#39;nightly/β &lt;b&gt;&#39;", `data-flag="reason"`)
	form := hiddenOf(page)
	form.Set("reason", "a holiday")
	has(t, s.post(at+"/pause", form, 200), "The schedule is paused")
	until("paused", at, "a holiday", "/resume", "it is paused")
	hasNot(t, s.get(at, 200), "/pause\"")
	s.post(at+"/resume", hiddenOf(s.get(at+"/resume", 200)), 200)
	until("resumed", at, "/pause\"")
	form = hiddenOf(s.get(at+"/trigger", 200))
	s.post(at+"/trigger", form, 200)
	s.post(at+"/trigger", form, 200) // submits the same form twice
	until("triggered", at, "<dt>Started</dt><dd>1</dd>")
	has(t, s.post(at+"/backfill", url.Values{"from": {"soon"}, "to": {"0s"}, "overlap": {"allow"}}, 400), "soon", `value="soon"`, `<option value="allow" selected>`)
	s.post(at+"/backfill", url.Values{"from": {"72h"}, "to": {"0s"}, "overlap": {"allow"}}, 200)
	until("backfilled", at, "<dt>Started</dt><dd>4</dd>")
	s.get(at+"/explode", 404)
	s.get("schedules/nobody", 404)
	s.get("schedules/nobody/pause", 404)
	s.post(at+"/delete", hiddenOf(s.get(at+"/delete", 200)), 200)
	until("deleted", "schedules", "No schedules")
}

func TestOPS2_LimitsAreShownAndConfigured(t *testing.T) {
	s := newSite(t, console.Config{})
	name := s.Visit("ada")
	at := "pools/" + url.PathEscape(name)
	page := s.get("queues", 200)
	has(t, page, name, "1 / 1", "1 at once", "/flows/"+at+"/set?key=ada", "/flows/"+at+"/pause?key=ada")
	hasNot(t, page, "/reset")
	page = s.get(at+"/set?key=ada", 200)
	has(t, page, `value="1"`, "flowctl pools set &#39;admintest.customer/β&#39; --key ada")
	form := hiddenOf(page)
	form.Set("atOnce", "x")
	has(t, s.post(at+"/set?key=ada", form, 400), "atOnce is not a whole number", `value="x"`)
	form.Set("atOnce", "3")
	form.Set("rate", "100")
	form.Set("per", "1m")
	form.Set("refuse", "on")
	has(t, s.post(at+"/set?key=ada", form, 200), "1 / 3", "3 at once, 100 in 1 min, others are refused", "set here", "/reset?key=ada", "applies as set")
	has(t, s.get(at+"/set?key=ada", 200), `value="1m0s"`, `name="refuse" value="on" checked`)
	has(t, s.post(at+"/pause?key=ada", hiddenOf(s.get(at+"/pause?key=ada", 200)), 200), "paused", "/resume?key=ada")
	s.post(at+"/resume?key=ada", nil, 200)
	has(t, s.post(at+"/reset?key=ada", nil, 200), "1 / 1")
	s.post("pools/nobody/pause", nil, 404)
	s.get(at+"/explode", 404)
}

// TestOPS2_WorkersAndQueuesSayWhoServesWhat proves that the page of workers lists the served
// workflows by queue, and that the page of queues shows problems of the queues.
func TestOPS2_WorkersAndQueuesSayWhoServesWhat(t *testing.T) {
	s := newSite(t, console.Config{})
	s.Blocked("order-1")
	has(t, s.get("workers", 200), "<b>default</b>", "admintest.order, admintest.parent", "running")
	has(t, s.get("queues", 200), "start a worker that registers admintest.changed", `<span class="warn">1</span>`, `<span class="dim">0</span>`)
}

// order is an input with fields of all types that forms support.
type order struct {
	Customer string     `json:"customer"`
	Cents    int        `json:"cents"`
	Express  bool       `json:"express"`
	Gift     *bool      `json:"gift"`
	Due      *time.Time `json:"due"`
	Address  address    `json:"address"`
	Billing  *address   `json:"billing"`
	Lines    []string   `json:"lines/β"`
}

type address struct {
	City string   `json:"city"`
	Next *address `json:"next"`
}

func TestOPS2_StartDrawsAFormFromTheSchema(t *testing.T) {
	s := newSite(t, console.Config{})
	shop := shim.NewWorkflow[order, string]("shop.order", "order", shim.WorkflowPolicy{})
	w := worker.New(s.Client, worker.Config{})
	shim.BindWorkflow(w, shop, func(workflow.Context, order) (string, error) { return "done", nil })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	for limited, cancel := context.WithTimeout(ctx, time.Minute); ; {
		page, err := s.Direct.Catalog(limited, admin.CatalogFilter{Workflow: "shop.order"})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Workflows) > 0 {
			cancel()
			break
		}
		select { // waits until the worker has registered the workflow, which it does when it starts
		case <-limited.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	has(t, s.get("start", 200), "Known workflows", "/flows/start?workflow=shop.order")
	page := s.get("start?workflow=shop.order", 200)
	has(t, page, `name="in:/order/customer"`, `name="in:/order/cents"`, `name="in:/order/address/city"`, `name="in:/order/lines~1β"`, "a whole number", "as JSON")
	hasNot(t, page, `name="input"`)
	has(t, s.get("start?workflow=shop.order&show=json", 200), `name="input"`, "as a form", "flowctl start shop.order")
	has(t, s.get("start?workflow=nobody.knows", 200), `name="input"`)
	form := url.Values{
		"workflow": {"shop.order"}, "as": {"form"}, "in:/order/customer": {"ada <b>"}, "in:/order/cents": {"12,00"}, "in:/order/express": {"true"}, "in:/order/address/city": {"Bern"}, "in:/order/lines~1β": {`["a"`},
	}
	page = s.post("start", form, 400)
	has(t, page, "is not JSON", `value="ada &lt;b&gt;"`, `aria-invalid="true"`)
	form.Set("in:/order/lines~1β", `["a"]`)
	page = s.post("start", form, 422)
	has(t, page, `value="12,00"`, `id="p-in:/order/cents">is string, want integer`)
	form.Set("in:/order/cents", "1200")
	form.Set("show", "json")
	page = s.post("start", form, 200)
	has(t, page, "&#34;cents&#34;: 1200", "&#34;city&#34;: &#34;Bern&#34;", `name="input"`)
	back := url.Values{"workflow": {"shop.order"}, "show": {"form"}, "input": {`{"order":{"customer":"eve","cents":5,"express":false,"gift":null,"address":{"city":"x"},"lines/β":[1]}}`}}
	has(t, s.post("start", back, 200), `name="in:/order/customer" value="eve"`, `<option value="false" selected>`)
	back.Set("input", `{"order":{"unknown":1}}`)
	has(t, s.post("start", back, 400), "no fields for all of this input", "&#34;unknown&#34;")
	form.Del("show")
	page = s.post("start", form, 200)
	has(t, page, "shop.order", "Timeline")
	got, err := s.Direct.Runs(t.Context(), admin.Filter{Workflow: "shop.order"})
	if err != nil || len(got.Runs) != 1 {
		t.Fatalf("there are %+v, %v", got.Runs, err)
	}
	run, err := s.Direct.Run(t.Context(), got.Runs[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"order":{"address":{"city":"Bern"},"cents":1200,"customer":"ada \u003cb\u003e","express":true,"lines/β":["a"]}}`
	if string(run.Input) != want {
		t.Errorf("the input is %s, want %s", run.Input, want)
	}
}
