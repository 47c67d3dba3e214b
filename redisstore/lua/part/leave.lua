-- leave_owner takes a run from the session that owns it. The caller gives it its new
-- queue state, where its header says that nobody owns it.
local function leave_owner(run, session)
  intact('SREM', tag .. 'o:' .. session, run)
  intact('HDEL', tag .. 'a:' .. session, run)
end
