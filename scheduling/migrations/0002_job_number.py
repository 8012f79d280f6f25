from django.db import migrations


class Migration(migrations.Migration):
    """The numbers that public job ids are spelled from: in order, with gaps, never a key."""

    dependencies = [("scheduling", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "CREATE SEQUENCE scheduling_job_number START 100000000 INCREMENT 7",
            "DROP SEQUENCE scheduling_job_number",
        ),
    ]
