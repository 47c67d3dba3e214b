-- hand_to makes call_line grant runs directly to the session of a claim, and returns the list that
-- will contain their answers. It executes at once what a claim would do after the admission of a
-- limiter queue and what the claim would then find out about the next run of the queue, so that the
-- ready runs and the timers are not updated in between. It leaves every case to the claim that a
-- claim might decide differently. A command on an overwritten key is skipped because the script has
-- written already. k and a are the numbers of KEYS and ARGV before those of the claim, as for take.
local function hand_to(k, a)
  local handed = {}
  local s = intact('HMGET', KEYS[k + 1], 'i', 'r') or {}
  if not s[1] or s[2] or ARGV[a + 7] ~= '' or redis.call('EXISTS', unpack(KEYS, k + 6, #KEYS - 1)) > 0 then
    return handed -- ready runs come first
  end
  local session, token, most, exempt = ARGV[a + 2], ARGV[a + 3], tonumber(ARGV[a + 4]), tonumber(ARGV[a + 6])
  put_off()
  hand_on = function(line)
    local run = #handed < most and unannounced[line.route] ~= nil and first_of(line.id)
    local meta = run and tag .. 'm:' .. run
    local m = run and intact('HMGET', meta, 'H', 'c', 'f', 'V', 'g') or {}
    if queue_state_of(m[1]) ~= '1' or m[3] or flagged(m[1], has_incompatible) then
      return false
    end
    local l = unpack_has(m[4] or '000')
    if l.permits or l.off or l.place ~= line.place then
      return false
    end
    l.permits = true
    count(line.uses, 1, -1)
    if nested(line.uses[1]) then
      owe(line)
    end
    count_away(line, -go_out(line.id, line.place, run))
    line.owed = false
    save_turn(line, line_shut, 0, everywhere(line.uses))
    handed[#handed + 1] = grant(run, meta, session, token, m[1], m[2], exempt, m[5], line.text, pack_has(l))
    intact('SADD', KEYS[k + 5], run)
    intact('HSET', KEYS[k + 1], 't', token)
    if line.place then
      restand(line)
    end
    call_next(line.uses)
    local following = line.mode == line_shut and first_of(line.id)
    local has = following and intact('HGET', tag .. 'm:' .. following, 'V')
    if has then
      note_vain(following, unpack_has(has))
    end
    return true
  end
  return handed
end
