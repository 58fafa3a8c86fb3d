-- A session can be deleted, with everything that belongs to it. A row goes only while `refold.deleted` has the number
-- of its session, so that no other statement of somebody who is bound by policies removes one. A role needs the
-- right to DELETE as well, which nobody gets here.

DO $$
DECLARE one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['lines', 'entries', 'words', 'terms'] LOOP
        EXECUTE format('CREATE POLICY removed ON refold.%I FOR DELETE'
            ' USING (scope = current_setting(''refold.scope'', true)'
            ' AND session::text = current_setting(''refold.deleted'', true))', one);
    END LOOP;
END $$;
