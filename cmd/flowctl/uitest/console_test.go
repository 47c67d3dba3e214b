package uitest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
)

// The test proves that the keyboard is sufficient to find a failed run, open it, and retry it.
func TestOPS2_KeyboardFromTheListToARetry(t *testing.T) {
	s := newSite(t, memstore.New())
	failed := s.Ended("bad", "order-1")
	s.Ended("good", "order-2")
	s.run("the list", chromedp.Navigate(s.url+"runs"), until(`!document.querySelector("[data-help]").hidden`))
	s.run("filter", chromedp.KeyEvent("/"), until(`document.activeElement.id === "q"`),
		chromedp.KeyEvent(kb.Backspace), chromedp.KeyEvent("status:failed"+kb.Enter),
		until(`location.search.includes("failed") && document.querySelectorAll("tbody tr").length === 1`))
	s.run("open", until(`!document.querySelector("[data-help]").hidden`), chromedp.KeyEvent("j"), until(`document.querySelector("tr.at a") === document.activeElement`), chromedp.KeyEvent(kb.Enter),
		until(fmt.Sprintf(`location.pathname.endsWith(%q)`, failed)))
	s.run("retry", until(`!document.querySelector("[data-help]")?.hidden`), chromedp.KeyEvent("r"), chromedp.WaitVisible("dialog[open] .primary"), until(`document.activeElement.id === "reason"`), chromedp.KeyEvent("a good one"+kb.Enter),
		until(`location.search.includes("did=retry")`))
	var at string
	s.run("the new run", chromedp.Location(&at))
	if at, _, _ := strings.Cut(at, "?"); strings.Contains(at, failed) || !strings.Contains(at, "wrun_") {
		t.Errorf("the page is %s, want that of the new run", at)
	}
	if got, err := s.Direct.Runs(t.Context(), admin.Filter{}); err != nil || len(got.Runs) != 3 {
		t.Errorf("there are %d runs (%v), want 3", len(got.Runs), err)
	}
}

// The test proves that pages are updated automatically. Updates keep the focus and the selection,
// and new rows are added only on request.
func TestOPS2_UpdatesKeepFocusAndSelection(t *testing.T) {
	s := newSite(t, memstore.New())
	ref := s.Start("wait", "order-1")
	s.Until(ref, "waiting")
	s.run("the list", chromedp.Navigate(s.url+"runs"), chromedp.WaitVisible("table.runs"), until(`!document.querySelector("[data-help]").hidden`), chromedp.KeyEvent("j"), chromedp.KeyEvent("x"), until(`document.querySelector("input[name=run]").checked`))
	other := s.Start("wait", "order-2")
	s.run("a new run", until(`!document.querySelector("#new").hidden && document.querySelector("#new").textContent === "1 new"`))
	if _, err := s.Direct.Act(t.Context(), ref, admin.Action{Verb: "cancel"}); err != nil {
		t.Fatal(err)
	}
	var kept bool
	s.run("an update", until(fmt.Sprintf(`document.getElementById(%q).textContent.includes("cancelled")`, ref)),
		chromedp.Evaluate(`document.querySelector("input[name=run]").checked && document.activeElement.closest("tr")?.classList.contains("at") && document.querySelectorAll("tbody tr").length === 1`, &kept))
	if !kept {
		t.Error("the update has moved the focus, lost what was chosen, or put a row in")
	}
	s.run("ask for them", chromedp.Click("#new"), until(fmt.Sprintf(`!!document.getElementById(%q)`, other)))
}

// The test proves that a user can save views in the browser with a dialog, and delete them.
func TestOPS2_OwnViewsAreKeptInTheBrowser(t *testing.T) {
	s := newSite(t, memstore.New())
	s.Ended("bad", "order-1")
	s.run("save", chromedp.Navigate(s.url+"runs?q=status:failed"), until(`document.querySelector("#own button")?.textContent === "+ Save view"`), chromedp.Click("#own button"),
		chromedp.WaitVisible("dialog[open] #view"), chromedp.SetValue("#view", "mine <b>"), chromedp.SendKeys("#view", kb.Enter), until(`document.querySelector("#own a")?.textContent === "mine <b>"`))
	s.run("it is there elsewhere", chromedp.Navigate(s.url+"runs"), until(`document.querySelector("#own a")?.textContent === "mine <b>"`), chromedp.Click("#own a"),
		until(`location.search === "?q=status%3Afailed" && document.querySelector("#own a")?.getAttribute("aria-current") === "true"`))
	s.run("an update", chromedp.Evaluate(`document.querySelector("#own a").focus()`, nil))
	s.Ended("bad", "order-2")
	var focused bool
	s.run("the focus stays", until(`document.querySelector("#new")?.textContent === "1 new"`), chromedp.Evaluate(`document.activeElement.closest("#own") !== null`, &focused))
	if !focused {
		t.Error("an update of the list has taken the focus from an own view")
	}
	s.run("forget", chromedp.Click("#own button"), until(`!document.querySelector("#own a")`))
}

// The test proves that shared views are saved and deleted with dialogs. The dialogs show a command
// that matches the input, and stay open while the list is updated.
func TestOPS2_SharedViewsAreSavedByADialog(t *testing.T) {
	s := newSite(t, memstore.New())
	s.Ended("bad", "order-1")
	const tab, offer = `document.querySelector("#shared a")`, `document.querySelector("#shared a[data-dialog]")`
	s.run("save", chromedp.Navigate(s.url+"runs?q=status:failed"), until(offer+`?.textContent === "+ Save for all"`), chromedp.Click("#shared a[data-dialog]"),
		chromedp.WaitVisible("dialog[open] #f-name"), chromedp.SendKeys("#f-name", "Night <b> shift"),
		until(`document.querySelector("dialog [data-command]").textContent.endsWith(" views save 'Night <b> shift' status:failed")`),
		chromedp.SendKeys("#f-name", kb.Enter))
	s.run("the view", until(tab+`?.textContent === "Night <b> shift" && `+tab+`.getAttribute("aria-current") === "true" && `+offer+`.textContent === "Delete for all"`), chromedp.Evaluate(tab+`.focus()`, nil))
	s.Ended("bad", "order-2")
	var kept bool
	s.run("it stays", until(`document.querySelector("#new")?.textContent === "1 new"`), chromedp.Evaluate(`document.activeElement === `+tab, &kept))
	if !kept {
		t.Error("an update of the list has taken a shared view away, or the focus from it")
	}
	s.run("it is elsewhere", chromedp.Navigate(s.url+"runs"), until(tab+`?.textContent === "Night <b> shift"`), chromedp.Click("#shared a"), until(offer+`?.textContent === "Delete for all"`))
	s.run("delete", chromedp.Click("#shared a[data-dialog]"), chromedp.WaitVisible("dialog[open] button.danger"), chromedp.Click("dialog[open] button.danger"), until(`document.querySelector(".notice")?.textContent.includes("deleted")`))
	if list, err := s.Direct.Views(t.Context()); err != nil || len(list.Views) != 0 {
		t.Errorf("got %+v, %v", list, err)
	}
}

// The test proves that the keyboard is sufficient to show the keys, navigate, confirm a bulk action
// by its number, and execute the actions of a run.
func TestOPS2_KeysLeadToEachPart(t *testing.T) {
	s := newSite(t, memstore.New())
	run := s.Start("wait", "order-1")
	s.Until(run, "waiting")
	ready := until(`document.querySelector("[data-help]")?.hidden === false`)
	s.run("help", chromedp.Navigate(s.url+"runs"), ready, chromedp.KeyEvent("?"), chromedp.WaitVisible("dialog[open] .keys"), chromedp.KeyEvent(kb.Escape), until(`!document.querySelector("dialog")`))
	for key, at := range map[string]string{"f": "failures", "a": "alerts", "q": "queues", "w": "workers", "d": "deploys", "s": "schedules", "b": "bulk", "j": "journal", "c": "checks", "h": "inbox", "n": "start", "r": "runs"} {
		s.run(at, ready, chromedp.Evaluate(`document.activeElement.blur()`, nil), chromedp.KeyEvent("g"), chromedp.KeyEvent(key), until(fmt.Sprintf(`location.pathname.endsWith("/%s")`, at)))
	}
	s.run("actions", chromedp.Navigate(s.url+"runs/"+run), ready, chromedp.KeyEvent("."), until(`!!document.activeElement.closest("details.menu li")`))
	s.run("zoom", chromedp.Navigate(s.url+"runs/"+run), ready, chromedp.KeyEvent("+"), until(`location.search.includes("from=")`), chromedp.KeyEvent("0"), until(`!location.search.includes("from=")`))
}

// The test proves that the command that a form shows changes with the input.
func TestOPS2_TheCommandFollowsWhatIsTyped(t *testing.T) {
	s := newSite(t, memstore.New())
	run := s.Start("wait", "order-1")
	s.Until(run, "waiting")
	var said string
	s.run("a message", chromedp.Navigate(s.url+"runs/"+run+"/talk"), until(`!document.querySelector("[data-help]")?.hidden`), chromedp.Click("a[data-dialog][href*='/send']"), chromedp.WaitVisible("dialog[open] [data-command]"),
		chromedp.SendKeys("#f-payload", `{"it's":1}`), chromedp.Text("dialog [data-command]", &said))
	if want := "flowctl send " + run + ` verdict '{"it'\''s":1}'`; said != want {
		t.Errorf("the command is %s, want %s", said, want)
	}
	s.run("send", chromedp.Click("dialog .primary"), until(`location.search.includes("did=sent")`))
	s.Until(run, "completed")
}

// The test proves that the timeline and the pages of a run work without scripts.
func TestOPS2_PagesWorkWithoutScripts(t *testing.T) {
	s := newSite(t, memstore.New())
	run := s.Ended("bad", "order-1")
	s.run("without scripts", emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(s.url+"runs"), chromedp.Click("tr a.name"), chromedp.WaitVisible(".lanes"), chromedp.Click("a[data-op]"), chromedp.WaitVisible("#op"),
		chromedp.Click("a[href*='/act/retry']"), chromedp.WaitVisible("form.dialog"), chromedp.Click("form.dialog button.primary"), chromedp.WaitVisible(".notice"))
	var at string
	s.run("the new run", chromedp.Location(&at))
	if !strings.Contains(at, "did=retry") || strings.Contains(at, run+"?did") {
		t.Errorf("the page is %s, want that of the new run", at)
	}
}
