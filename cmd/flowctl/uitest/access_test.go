package uitest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/flowgen/flowgen/memstore"
)

// contrasts is a script that returns the texts of a page with a contrast below the minimum of WCAG
// 2.2 (1.4.3).
const contrasts = `(() => {
  const c = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  c.canvas.width = c.canvas.height = 1;
  const rgba = (s) => { c.clearRect(0, 0, 1, 1); c.fillStyle = s; c.fillRect(0, 0, 1, 1); const d = c.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
  const light = (p) => { const [r, g, b] = p.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const b = rgba(getComputedStyle(e).backgroundColor); if (b[3] > 0.99) return b; } return [255, 255, 255, 1]; };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode());) {
    const e = n.parentElement;
    if (!n.data.trim() || !e.checkVisibility({ visibilityProperty: true }) || e.closest("svg, datalist, .sr, .skip")) continue;
    const s = getComputedStyle(e), a = light(rgba(s.color).slice(0, 3)), b = light(behind(e).slice(0, 3));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(s.fontSize);
    const wanted = size >= 24 || size >= 18.66 && +s.fontWeight >= 700 ? 3 : 4.5;
    if (ratio < wanted) faint.push(ratio.toFixed(2) + " " + e.className + ": " + n.data.trim().slice(0, 40));
  }
  return [...new Set(faint)];
})()`

// The test proves that each text is readable in both themes, and that no page is wider than a
// phone.
func TestOPS2_TextsCanBeReadInBothThemesAndOnPhones(t *testing.T) {
	s := newSite(t, memstore.New())
	refs := s.states()
	pages := s.furnish()
	for _, state := range []string{"failed", "blocked", "retrying", "waiting", "hostile"} {
		for _, tab := range tabs {
			pages = append(pages, "runs/"+refs[state]+tab)
		}
	}
	pages = append(pages, "act/terminate?run="+refs["waiting"], "runs/"+refs["waiting"]+"/send")
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 1440} {
			for _, page := range pages {
				var faint []string
				var wide int
				s.run(page, chromedp.EmulateViewport(width, 900), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}),
					chromedp.Navigate(s.url+page), chromedp.WaitVisible("#main > *", chromedp.ByQuery), chromedp.Evaluate(contrasts, &faint),
					chromedp.Evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &wide))
				for _, f := range faint {
					t.Errorf("%s, %s: contrast %s", page, theme, f)
				}
				if wide > 0 {
					t.Errorf("%s is %d pixels wider than %d", page, wide, width)
				}
			}
		}
	}
}

// said contains the properties of a node of the accessibility tree that the tests read. The type of
// the browser package is unsuitable, because browsers add properties that the package does not
// support.
type said struct {
	Ignored bool  `json:"ignored"`
	Role    value `json:"role"`
	Name    value `json:"name"`
}

type value struct {
	Value any `json:"value"`
}

// tree returns the nodes of the accessibility tree of the page, each as "ROLE NAME".
func (s *site) tree() []string {
	s.Helper()
	var tree struct {
		Nodes []said `json:"nodes"`
	}
	s.run("the tree", chromedp.ActionFunc(func(ctx context.Context) error {
		return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree)
	}))
	var all []string
	for _, n := range tree.Nodes {
		if !n.Ignored {
			all = append(all, strings.TrimSpace(fmt.Sprint(n.Role.Value, " ", n.Name.Value)))
		}
	}
	return all
}

// The test proves that the accessibility tree contains the structure of each page.
func TestOPS2_PagesSayWhatTheyAreMadeOf(t *testing.T) {
	s := newSite(t, memstore.New())
	refs := s.states()
	for page, want := range map[string][]string{
		"runs":                                {"heading Runs", "search", "textbox Filter", "button Filter", "table", "columnheader Status", "checkbox Choose order-1", "navigation Views", "list How many", "link Act on all"},
		"runs/" + refs["failed"]:              {"heading order-1", "navigation Parts of the run", "region Why it does not go on", "region Timeline", "columnheader Operation", "link Retry", "group Time"},
		"runs/" + refs["blocked"]:             {"heading The code asks for", "heading The log has event"},
		"runs/" + refs["waiting"] + "/talk":   {"heading Messages that came", "link Send a message"},
		"failures":                            {"heading Failures", "navigation Kinds", "link Retry 1"},
		"alerts":                              {"heading Alerts", "search", "textbox Target", "button Filter", "heading No alerts"},
		"deploys":                             {"heading Deployments", "link Drained?", "link Ramp", "link Retire"},
		"bulk/new?q=status:failed&verb=retry": {"textbox Type 1 to retry it", "button Retry 1 run", "combobox Action"},
		"journal":                             {"heading Journal", "textbox Who", "combobox Outcome"},
		"checks":                              {"heading Checks", "button Check the store"},
		"start?workflow=admintest.order":      {"textbox what", "button Start and follow", "combobox If a run"},
	} {
		s.run(page, chromedp.Navigate(s.url+page), chromedp.WaitVisible("#main > *", chromedp.ByQuery))
		if strings.HasPrefix(page, "start") {
			s.run("more", chromedp.Evaluate(`document.querySelector("main details").open = true`, nil))
		}
		got := s.tree()
		for _, w := range append(want, "banner", "main", "navigation Console", "status", "link Skip to the content") {
			if !slices.ContainsFunc(got, func(node string) bool { return strings.HasPrefix(node, w) }) {
				t.Errorf("%s: %q is not said in\n%s", page, w, strings.Join(got, "\n"))
			}
		}
		for _, node := range got {
			if slices.Contains([]string{"button", "link", "textbox", "combobox", "checkbox", "heading", "dialog", "navigation"}, node) {
				t.Errorf("%s: a %s has no name", page, node)
			}
		}
	}
	var open string
	s.run("a dialog", chromedp.Navigate(s.url+"runs/"+refs["waiting"]), until(`!document.querySelector("[data-help]")?.hidden`), chromedp.Click("a[data-dialog][href*='/act/cancel']"), chromedp.WaitVisible("dialog[open]"),
		chromedp.Evaluate(`document.activeElement.id`, &open))
	if got := s.tree(); !slices.Contains(got, "dialog Cancel") || open != "reason" {
		t.Errorf("the dialog is said as %v, and the focus is on %q", got, open)
	}
}
