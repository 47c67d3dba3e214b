-- leave_owner takes a run from the session that owns it. The caller gives it its new
-- queue state, where its header says that nobody owns it. read: it had no unread items, as its header has said.
local function leave_owner(run, session, read)
  intact('SREM', tag .. 'o:' .. session, run)
  if not read then
    intact('HDEL', tag .. 'a:' .. session, run)
  end
end
