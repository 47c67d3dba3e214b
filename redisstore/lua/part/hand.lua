-- hand_to makes admit_limiter grant runs directly to the session of a claim, and returns the list that
-- will contain their answers. It executes at once what a claim would do after the admission of a
-- limiter queue and what the claim would then find out about the next run of the queue, so that the
-- ready runs and the timers are not updated in between. It leaves every case to the claim that a
-- claim might decide differently. A command on an overwritten key is skipped because the script has
-- written already. k and a are the numbers of KEYS and ARGV before those of the claim, as for take.
local function hand_to(k, a)
  local handed = {}
  local s = intact('HMGET', KEYS[k + 1], 'i', 'r') or {}
  if not s[1] or s[2] or ARGV[a + 7] ~= '' or redis.call('EXISTS', unpack(KEYS, k + 6, #KEYS - 1)) > 0 then
    return handed -- ready runs precede the runs of the queue
  end
  local session, token, most, exempt = ARGV[a + 2], ARGV[a + 3], tonumber(ARGV[a + 4]), tonumber(ARGV[a + 6])
  put_off()
  hand_on = function(limiter)
    local run = #handed < most and unannounced[limiter.route] ~= nil and first_of(limiter.id)
    local meta = run and tag .. 'm:' .. run
    local m = run and intact('HMGET', meta, 'H', 'c', 'f', 'V', 'g') or {}
    if queue_state_of(m[1]) ~= '1' or m[3] or flagged(m[1], has_incompatible) then
      return false
    end
    local l = unpack_has(m[4] or '000')
    if l.permits or l.off or l.place ~= limiter.place then
      return false
    end
    l.permits = true
    count(limiter.uses, 1, -1)
    if nested(limiter.uses[1]) then
      owe(limiter)
    end
    count_away(limiter, -go_out(limiter.id, limiter.place, run))
    limiter.owed = false
    save_position(limiter, limiter_closed, 0, everywhere(limiter.uses))
    handed[#handed + 1] = grant(run, meta, session, token, m[1], m[2], exempt, m[5], limiter.text, pack_has(l))
    intact('SADD', KEYS[k + 5], run)
    intact('HSET', KEYS[k + 1], 't', token)
    if limiter.place then
      restand(limiter)
    end
    call_next(limiter.uses)
    local following = limiter.mode == limiter_closed and first_of(limiter.id)
    local has = following and intact('HGET', tag .. 'm:' .. following, 'V')
    if has then
      note_vain(following, unpack_has(has))
    end
    return true
  end
  return handed
end
