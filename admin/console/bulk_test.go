package console_test

import (
	"fmt"
	"html"
	"regexp"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
)

// TestOPS2_ABulkActionIsPreviewedAndConfirmedByItsNumber proves that a bulk action starts only
// after its effect was shown and the number of runs was typed.
func TestOPS2_ABulkActionIsPreviewedAndConfirmedByItsNumber(t *testing.T) {
	s := newSite(t, console.Config{})
	has(t, s.get("bulk", 200), "No bulk actions yet")
	for i := range 3 {
		s.Ended("bad", fmt.Sprint("order-", i))
	}
	s.Ended("good", "order-good")
	has(t, s.get("runs", 200), "Act on all 4", "/flows/bulk/new?q=")
	group := regexp.MustCompile(`/flows/(bulk/new\?q=[^"]+verb=retry)"[^>]*>Retry 3<`).FindStringSubmatch(s.get("failures", 200))
	if group == nil {
		t.Fatal("no group of failures offers to retry its 3 runs")
	}
	has(t, s.get(html.UnescapeString(group[1]), 200), "Retry 3 runs", "Type 3 to retry", "status:failed")
	has(t, s.get("bulk/new?q=status:failed", 200), "Nothing is done yet")
	hasNot(t, s.get("bulk/new?q=status:failed", 200), `name="token"`)
	has(t, s.get("bulk/new?verb=retry", 400), "give a filter, or all")
	has(t, s.get("bulk/new?verb=explode&q=status:failed", 400), "there is no action")
	has(t, s.get("bulk/new?verb=retry&q=colour:red", 400), "a filter has no")
	page := s.get("bulk/new?verb=retry&q=id:order-1", 200)
	has(t, page, "Retry 1 run", "flowctl retry --id order-1", "order-1")
	all := s.get("bulk/new?verb=retry&all=on", 200)
	has(t, all, "Retry 4 runs", "Refused, for their status", "flowctl retry --all")
	form := hiddenOf(s.get("bulk/new?verb=retry&q=status:failed", 200))
	for _, typed := range []string{"", "2", "four"} {
		form.Set("count", typed)
		has(t, s.post("bulk/new", form, 400), "which is not the number of matching runs", "Type 3 to retry")
	}
	form.Set("count", "3")
	form.Set("rate", "many")
	has(t, s.post("bulk/new", form, 400), "the rate is not a whole number", `value="many"`)
	form.Set("rate", "1,000")
	has(t, s.post("bulk/new", form, 200), "Retry 3 runs", "it continues without this page", "status:failed")
	s.post("bulk/new", form, 200)
	list, err := s.Direct.Bulks(s.Context(), admin.BulkFilter{})
	if err != nil || len(list.Bulks) != 1 || list.Bulks[0].Rate != 1000 {
		t.Fatalf("the form that was sent twice has started %+v (%v), want one of 1,000 in a second", list.Bulks, err)
	}
	id := list.Bulks[0].ID
	if r, err := s.Direct.Wait(s.Context(), list.Bulks[0].Run, time.Minute); err != nil || r.Status != "completed" {
		t.Fatalf("the bulk action is %s, %v", r.Status, err)
	}
	has(t, s.get("bulk/"+id, 200), "completed", "<dd>3</dd>", "flowctl bulk show "+id)
	has(t, s.get("bulk", 200), id, "3 / 3")
	has(t, s.get("bulk/"+id+"/stop", 200), "flowctl bulk stop "+id, "Stop it")
	s.get("bulk/order-1", 400)
	s.get("bulk/bulk-none/stop", 404)
}

func TestOPS2_ABulkActionIsStopped(t *testing.T) {
	s := newSite(t, console.Config{})
	for i := range 5 {
		s.Ended("bad", fmt.Sprint("order-", i))
	}
	form := hiddenOf(s.get("bulk/new?verb=retry&q=status:failed", 200))
	form.Set("count", "5")
	form.Set("rate", "1")
	page := s.post("bulk/new", form, 200)
	id := regexp.MustCompile(`/flows/bulk/(bulk-[a-z0-9]+)/stop`).FindStringSubmatch(page)
	if id == nil {
		t.Fatalf("the page of a bulk action that runs offers no stop\n%s", mainOf(page))
	}
	has(t, s.post("bulk/"+id[1]+"/stop", hiddenOf(s.get("bulk/"+id[1]+"/stop", 200)), 200), "Its stop was requested")
	b, err := s.Direct.Bulk(s.Context(), id[1])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Direct.Wait(s.Context(), b.Run, time.Minute); err != nil {
		t.Fatal(err)
	}
	has(t, s.get("bulk/"+id[1], 200), "stopped")
}
